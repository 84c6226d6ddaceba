//! Lengths of axes as the generator knows them: polynomials over size names and quotients.

use std::collections::BTreeMap;
use std::fmt;

/// A factor of a polynomial's terms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Atom {
    /// A size name.
    Name(String),
    /// `(d + k - 1) / k`: every k-th element of `d`.
    Every(i64, Dim),
    /// `d / e`, which has no value if `e` is 0.
    Over(Dim, Dim),
}

/// A length: products of atoms with their coefficients; the empty product is the constant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dim {
    terms: BTreeMap<Vec<Atom>, i64>,
}

impl Dim {
    /// A number.
    pub fn constant(value: i64) -> Dim {
        Dim { terms: [(vec![], value)].into_iter().filter(|(_, v)| *v != 0).collect() }
    }

    /// A size name.
    pub fn name(name: &str) -> Dim {
        Dim { terms: [(vec![Atom::Name(name.into())], 1)].into() }
    }

    /// `(self + step - 1) / step`.
    pub fn every(&self, step: i64) -> Dim {
        match self.as_constant() {
            Some(value) => Dim::constant((value + step - 1).div_euclid(step)),
            None => Dim { terms: [(vec![Atom::Every(step, self.clone())], 1)].into() },
        }
    }

    /// `self / by`.
    pub fn over(&self, by: &Dim) -> Dim {
        Dim { terms: [(vec![Atom::Over(self.clone(), by.clone())], 1)].into() }
    }

    /// The sum.
    pub fn plus(&self, other: &Dim) -> Dim {
        let mut sum = self.clone();
        for (product, coefficient) in &other.terms {
            *sum.terms.entry(product.clone()).or_default() += coefficient;
        }
        sum.terms.retain(|_, c| *c != 0);
        sum
    }

    /// The difference.
    pub fn minus(&self, other: &Dim) -> Dim {
        self.plus(&other.times(&Dim::constant(-1)))
    }

    /// The sum with a number.
    pub fn offset(&self, by: i64) -> Dim {
        self.plus(&Dim::constant(by))
    }

    /// The product.
    pub fn times(&self, other: &Dim) -> Dim {
        let mut product = Dim::default();
        for (p, a) in &self.terms {
            for (q, b) in &other.terms {
                let mut atoms: Vec<Atom> = p.iter().chain(q).cloned().collect();
                atoms.sort();
                *product.terms.entry(atoms).or_default() += a.saturating_mul(*b);
            }
        }
        product.terms.retain(|_, c| *c != 0);
        product
    }

    /// The number, if no name takes part.
    pub fn as_constant(&self) -> Option<i64> {
        self.minus_constant().is_none().then(|| self.constant_part())
    }

    /// The name, if this is one alone.
    pub fn as_name(&self) -> Option<&str> {
        match self.terms.iter().collect::<Vec<_>>().as_slice() {
            [(product, 1)] => match product.as_slice() {
                [Atom::Name(name)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// The names in it.
    pub fn names(&self) -> Vec<String> {
        let parts = self.terms.keys().flatten().map(|atom| match atom {
            Atom::Name(name) => vec![name.clone()],
            Atom::Every(_, dim) => dim.names(),
            Atom::Over(dim, by) => [dim.names(), by.names()].concat(),
        });
        parts.flatten().collect()
    }

    /// Whether some part is the quotient of two lengths, or of numbers that may wrap.
    pub fn has_quotient(&self) -> bool {
        self.terms.keys().flatten().any(|atom| match atom {
            Atom::Name(_) => false,
            Atom::Every(_, dim) => dim.has_quotient() || dim.terms.keys().any(|atoms| atoms.len() > 1),
            Atom::Over(..) => true,
        })
    }

    /// The constant part.
    pub fn constant_part(&self) -> i64 {
        self.terms.get(&vec![]).copied().unwrap_or(0)
    }

    /// The least value for any sizes, if there is one. Names stand for 0 or more.
    pub fn least(&self) -> Option<i64> {
        let falls = |atoms: &[Atom], c: i64| !atoms.is_empty() && c < 0;
        let unknown = self.terms.iter().any(|(atoms, c)| falls(atoms, *c));
        (!unknown).then(|| self.constant_part())
    }

    /// The value under given sizes; overflow saturates.
    pub fn value(&self, size: &dyn Fn(&str) -> i64) -> i64 {
        self.value_with(size, i64::MIN)
    }

    /// The value under given sizes, with each `d / e` counted as at least 1. Overflow saturates.
    pub fn work(&self, size: &dyn Fn(&str) -> i64) -> i64 {
        self.value_with(size, 1)
    }

    fn value_with(&self, size: &dyn Fn(&str) -> i64, least_quotient: i64) -> i64 {
        let value = |dim: &Dim| dim.value_with(size, least_quotient);
        let atom = |atom: &Atom| match atom {
            Atom::Name(name) => size(name),
            Atom::Every(step, dim) => value(dim).saturating_add(step - 1).div_euclid(*step),
            Atom::Over(dim, by) => value(dim).checked_div(value(by)).unwrap_or(0).max(least_quotient),
        };
        let product = |(atoms, c): (&Vec<Atom>, &i64)| atoms.iter().map(atom).fold(*c, i64::saturating_mul);
        self.terms.iter().map(product).fold(0, i64::saturating_add)
    }

    /// The length with its names replaced.
    pub fn substitute(&self, with: &BTreeMap<String, Dim>) -> Dim {
        let mut sum = Dim::default();
        for (atoms, c) in &self.terms {
            let mut product = Dim::constant(*c);
            for atom in atoms {
                product = product.times(&match atom {
                    Atom::Name(name) => with.get(name).cloned().unwrap_or_else(|| Dim::name(name)),
                    Atom::Every(step, dim) => dim.substitute(with).every(*step),
                    Atom::Over(dim, by) => dim.substitute(with).over(&by.substitute(with)),
                });
            }
            sum = sum.plus(&product);
        }
        sum
    }

    fn minus_constant(&self) -> Option<Dim> {
        let rest = self.offset(-self.constant_part());
        (!rest.terms.is_empty()).then_some(rest)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names first and the constant last, but a positive term first if there is one.
        let mut terms: Vec<_> = self.terms.iter().collect();
        terms.sort_by_key(|(atoms, c)| (atoms.is_empty(), **c < 0));
        if terms.is_empty() {
            return f.write_str("0");
        }
        let several = terms.len() > 1;
        for (k, (atoms, c)) in terms.into_iter().enumerate() {
            let sign = match (k, *c < 0) {
                (0, true) => "-",
                (0, false) => "",
                (_, true) => " - ",
                (_, false) => " + ",
            };
            let mut factors = vec![];
            if atoms.is_empty() || c.abs() != 1 {
                factors.push(c.abs().to_string());
            }
            for atom in atoms {
                let (above, below) = match atom {
                    Atom::Name(name) => {
                        factors.push(name.clone());
                        continue;
                    }
                    Atom::Every(step, dim) => (dim.offset(step - 1), Dim::constant(*step)),
                    Atom::Over(dim, by) => (dim.clone(), by.clone()),
                };
                let [above, below] = [above, below].map(|part| match part.minus_constant() {
                    Some(_) if part.as_name().is_none() => format!("({part})"),
                    _ => part.to_string(),
                });
                let is_alone = !several && *c == 1 && atoms.len() == 1;
                factors.push(if is_alone { format!("{above} / {below}") } else { format!("({above} / {below})") });
            }
            write!(f, "{sign}{}", factors.join(" * "))?;
        }
        Ok(())
    }
}
