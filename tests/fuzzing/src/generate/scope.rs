//! The environment of a place in the program: visible values, indices and size names, and the
//! accesses that are in bounds there.

use ir::Dtype;

use super::choice::Choices;
use super::dim::Dim;
use super::piece::{Names, Piece};

/// A parameter or a `let`.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub ty: Dtype,
    /// Its axes.
    pub shape: Vec<Dim>,
    /// Whether its elements are small integers.
    pub small: bool,
    /// If its elements are subscripts, their bound.
    pub below: Option<Dim>,
    /// The helpers' parameters it depends on.
    pub uses: Names,
    /// Whether it is a product that a sum over it might turn into a contraction.
    pub may_contract: bool,
}

/// The range of an index, as far as an access implies it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Evidence {
    /// The index stands alone in a subscript: it stays below this.
    Alone(Dim),
    /// The index shares a subscript with one that has an explicit bound: it stays below this.
    Shared(Dim),
    /// Anything else: the bound had better be written.
    Unclear,
}

/// An index in scope.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its bound.
    pub bound: Dim,
    /// Its upper bound here, under the enclosing guards.
    pub upper: Dim,
    /// Its lower bound here, under the enclosing guards.
    pub lower: i64,
    /// Whether it occurs in an enclosing condition: then an access does not bound it.
    pub guarded: bool,
    /// How its bound from below is written, if it has one: `1 <=`, `i <`.
    pub first: Option<String>,
    /// The index that bounds it from below, if there is one, and whether it may equal it.
    pub after: Option<(bool, String)>,
    /// For a prefix, the way its bound is written (`<= i`), with the outer index.
    pub prefix: Option<(bool, String)>,
    /// If its bound is data: the text of the bound, and the names that it mentions.
    pub data: Option<(String, Names)>,
    evidence: Vec<Evidence>,
}

impl Index {
    /// An index below `bound`.
    pub fn new(name: impl Into<String>, bound: Dim) -> Index {
        let upper = bound.clone();
        Index {
            name: name.into(),
            bound,
            upper,
            lower: 0,
            guarded: false,
            first: None,
            after: None,
            prefix: None,
            data: None,
            evidence: vec![],
        }
    }

    /// Whether it runs over sizes alone.
    pub fn is_plain(&self) -> bool {
        self.first.is_none() && self.prefix.is_none() && self.data.is_none()
    }

    /// Its binder, with bounds written by `end`. The bound is left out if the accesses imply it,
    /// unless `explicit`.
    pub fn binder(&self, explicit: bool, end: impl Fn(&Dim) -> Dim) -> String {
        if let Some(first) = &self.first {
            return format!("{first} {} < {}", self.name, end(&self.bound));
        }
        if let Some((end, _)) = &self.data {
            return format!("{} < {end}", self.name);
        }
        match &self.prefix {
            Some((true, outer)) => format!("{} <= {outer}", self.name),
            Some((false, outer)) => format!("{} < {outer}", self.name),
            None if explicit || !self.is_inferred() => format!("{} < {}", self.name, end(&self.bound)),
            None => self.name.clone(),
        }
    }

    /// Whether accesses imply the bound of the index.
    fn is_inferred(&self) -> bool {
        let mut alone = vec![];
        let mut shared = vec![];
        for evidence in &self.evidence {
            match evidence {
                Evidence::Alone(dim) => alone.push(dim),
                Evidence::Shared(dim) => shared.push(dim),
                Evidence::Unclear => return false,
            }
        }
        // If it stands alone, the least of several bounds that differ by a constant over the same
        // size name applies; other bounds must agree.
        let exceeds =
            |dim: &Dim| dim.as_constant().is_none() && dim.minus(&self.bound).as_constant().is_some_and(|d| d >= 0);
        let least = alone.iter().all(|dim| **dim == self.bound || exceeds(dim));
        let equal = shared.iter().all(|dim| **dim == self.bound);
        if alone.is_empty() { !shared.is_empty() && equal } else { least && alone.contains(&&self.bound) }
    }
}

/// How an axis is subscripted.
#[derive(Clone, Debug)]
enum Way {
    /// `i + c`
    Alone(usize, i64),
    /// `i + r`: an outer index and one with an explicit bound.
    Shared(usize, usize),
    /// `d - 1 - i`
    Reversed(usize),
    /// `2 * i`
    Times(usize, i64),
    /// `i % c`
    Modulo(usize, i64),
    /// A number.
    Number(i64),
    /// An integer parameter.
    Scalar(String),
    /// An element of an array of subscripts.
    Data(usize),
    /// Any integer, clamped: `clamp(v, 0, d - 1)`.
    Clamped(usize),
}

/// The environment of a place.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Values, the latest last.
    pub values: Vec<Value>,
    /// Indices, the innermost last.
    pub indices: Vec<Index>,
    /// The function's size names.
    pub sizes: Vec<String>,
    /// Those that are parameters of another type than `i64`.
    pub narrow: Vec<String>,
    /// Integer scalars that may be extreme, with their types.
    pub extremes: Vec<(String, Dtype)>,
}

/// A lower bound of how much `axis` exceeds `upper`, for any sizes.
fn room(axis: &Dim, upper: &Dim) -> Option<i64> {
    axis.minus(upper).least().filter(|d| *d >= 0)
}

impl Scope {
    /// Makes a value visible; one of the same name is shadowed.
    pub fn define(&mut self, value: Value) {
        self.values.retain(|v| v.name != value.name);
        self.extremes.retain(|(name, _)| *name != value.name);
        self.values.push(value);
    }

    /// The product of all indices' bounds: how often this place runs. `n - 2` counts as `n`,
    /// because even if it is 0, loop-invariant expressions may run.
    pub fn runs(&self) -> Dim {
        let length = |bound: &Dim| bound.offset(-bound.constant_part().min(0));
        self.indices.iter().fold(Dim::constant(1), |product, index| product.times(&length(&index.bound)))
    }

    /// A length as an `i64` expression.
    pub fn number(&self, dim: &Dim) -> Dim {
        let wide = self.narrow.iter().map(|name| (name.clone(), Dim::name(&format!("i64({name})"))));
        dim.substitute(&wide.collect())
    }

    /// All ways to subscript an axis here; those by indices come first.
    fn ways(&self, axis: &Dim, data: bool) -> Vec<Way> {
        let mut ways = vec![];
        for (n, index) in self.indices.iter().enumerate().rev() {
            if let Some(room) = room(axis, &index.upper) {
                ways.push(Way::Alone(n, 0));
                ways.extend((1..=room.min(2)).map(|c| Way::Alone(n, c)));
                if index.is_plain() && *axis == index.bound {
                    ways.push(Way::Reversed(n));
                }
            }
            if index.guarded && axis.offset(index.lower.min(1)).minus(&index.upper).least().is_some_and(|d| d >= 0) {
                ways.extend((1..=index.lower.min(2)).map(|c| Way::Alone(n, -c)));
            }
            let steps = [2, 3].into_iter().filter(|step| index.bound == axis.every(*step) && index.bound != *axis);
            ways.extend(steps.filter(|_| index.is_plain()).map(|step| Way::Times(n, step)));
        }
        for (r, inner) in self.indices.iter().enumerate().skip(1) {
            for (n, outer) in self.indices[..r].iter().enumerate() {
                // The sum of two indices reaches every position of such an axis and none beyond it,
                // as in a convolution.
                let past = outer.bound.plus(&inner.bound).offset(-1);
                if inner.is_plain() && outer.is_plain() && *axis == past {
                    ways.insert(0, Way::Shared(n, r));
                }
            }
        }
        if data {
            // The subscript is itself an element of an array, whose own subscripts may not be data
            // in turn: this recursion ends after one level.
            let values = self.values.iter().enumerate();
            let reached = |v: &Value| v.shape.iter().all(|axis| !self.ways(axis, false).is_empty());
            let subscripts = values.filter(|(_, v)| v.below.as_ref() == Some(axis) && reached(v));
            ways.extend(subscripts.map(|(n, _)| Way::Data(n)));
            let whole = self.values.iter().enumerate().filter(|(_, v)| v.ty == Dtype::I64 && v.below.is_none());
            ways.extend(whole.filter(|(_, v)| reached(v)).map(|(n, _)| Way::Clamped(n)));
        }
        if let Some(constant) = axis.as_constant().filter(|c| *c > 0) {
            ways.push(Way::Number(constant - 1));
            ways.push(Way::Number(0));
            ways.extend((0..self.indices.len()).map(|n| Way::Modulo(n, constant)));
        }
        ways
    }

    /// Whether some access to the leading axes is in bounds here.
    pub fn reaches(&self, leading: &[Dim]) -> bool {
        leading.iter().all(|axis| !self.ways(axis, true).is_empty())
    }

    /// An access to the leading axes of a value.
    pub fn access(&mut self, choices: &mut Choices<'_>, value: usize, leading: usize) -> Option<Piece> {
        self.access_with(choices, value, leading, true)
    }

    fn access_with(&mut self, choices: &mut Choices<'_>, value: usize, leading: usize, data: bool) -> Option<Piece> {
        let array = self.values[value].clone();
        let mut uses = array.uses.clone();
        let mut subscripts = vec![];
        let scalar = choices.pick(&self.extremes).map(|(name, _)| Way::Scalar(name.clone()));
        for axis in &array.shape[..leading] {
            let ways = self.ways(axis, data);
            // The plain subscript in half of the cases; in many of the others data, if there is
            // some.
            let way = match choices.below(32) {
                0..16 => ways.first(),
                16..24 => ways.iter().find(|way| matches!(way, Way::Data(_))).or(ways.first()),
                // Inside if the sizes allow it.
                24 if axis.as_constant().is_none() => Some(&Way::Number(0)),
                25 if axis.as_constant().is_none() => Some(&Way::Number(1)),
                26 => scalar.as_ref().or(ways.first()),
                _ => choices.pick(&ways),
            }?;
            subscripts.push(self.subscript(choices, axis, way, &mut uses)?);
        }
        let text = match subscripts.as_slice() {
            [] => array.name.clone(),
            _ => format!("{}[{}]", array.name, subscripts.join(", ")),
        };
        let mut piece = Piece::atom(text, array.ty, &array.shape[leading..]);
        piece.small = array.small;
        if array.may_contract {
            piece.factors = ["left of", "right of"].map(|side| [format!("{side} {}", array.name)].into()).into();
        }
        piece.uses = uses;
        Some(piece)
    }

    fn subscript(&mut self, choices: &mut Choices<'_>, axis: &Dim, way: &Way, uses: &mut Names) -> Option<String> {
        let mut mention = |index: &Index| {
            uses.insert(index.name.clone());
            index.name.clone()
        };
        Some(match *way {
            Way::Alone(n, offset) => {
                let name = mention(&self.indices[n]);
                self.note_alone(n, &axis.offset(-offset));
                match offset {
                    0 => name,
                    1.. => format!("{name} + {offset}"),
                    _ => format!("{name} - {}", -offset),
                }
            }
            Way::Shared(n, r) => {
                let (outer, inner) = (mention(&self.indices[n]), mention(&self.indices[r]));
                let [bound, other] = [n, r].map(|n| self.indices[n].bound.clone());
                // A quotient is computed as a reducer's end but cannot be a size.
                self.note(n, if other.has_quotient() { Evidence::Unclear } else { Evidence::Shared(bound) });
                self.note(r, Evidence::Unclear);
                format!("{outer} + {inner}")
            }
            Way::Reversed(n) => {
                self.note(n, Evidence::Unclear);
                format!("{} - {}", self.number(&axis.offset(-1)), mention(&self.indices[n]))
            }
            Way::Times(n, step) => {
                self.note_alone(n, &axis.every(step));
                format!("{step} * {}", mention(&self.indices[n]))
            }
            Way::Modulo(n, by) => {
                self.note(n, Evidence::Unclear);
                format!("{} % {by}", mention(&self.indices[n]))
            }
            Way::Number(number) => number.to_string(),
            Way::Scalar(ref name) => name.clone(),
            Way::Data(value) => {
                let rank = self.values[value].shape.len();
                let inner = self.access_with(choices, value, rank, false)?;
                uses.extend(inner.uses);
                inner.text
            }
            Way::Clamped(value) => {
                let rank = self.values[value].shape.len();
                let inner = self.access_with(choices, value, rank, false)?;
                uses.extend(inner.uses);
                format!("clamp({}, 0, {})", inner.text, self.number(&axis.offset(-1)))
            }
        })
    }

    /// An index alone in a subscript stays below `bound`. A prefix, even if a guard mentions it,
    /// passes that on to the index it follows, and a suffix to the one before it.
    fn note_alone(&mut self, n: usize, bound: &Dim) {
        let Index { prefix, after, .. } = &self.indices[n];
        let passed = match (prefix, after) {
            (Some((inclusive, outer)), _) => Some((outer, bound.offset(i64::from(!inclusive)))),
            (None, Some((inclusive, outer))) => Some((outer, bound.offset(-i64::from(!inclusive)))),
            (None, None) => None,
        };
        match passed {
            Some((outer, bound)) => {
                if let Some(outer) = self.indices.iter().position(|i| i.name == *outer) {
                    self.note_alone(outer, &bound);
                }
            }
            None => self.note(n, Evidence::Alone(bound.clone())),
        }
    }

    /// Lets no access bound the indices with these names.
    pub fn bound_explicitly(&mut self, names: &Names) {
        let named = self.indices.iter_mut().filter(|index| names.contains(&index.name));
        named.for_each(|index| index.evidence.push(Evidence::Unclear));
    }

    fn note(&mut self, n: usize, evidence: Evidence) {
        if !self.indices[n].guarded {
            self.indices[n].evidence.push(evidence);
        }
    }
}
