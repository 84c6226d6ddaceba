//! Parses kernels and functions.

use cranelift_entity::{EntityRef, PrimaryMap};

use super::token::Token;
use super::{MAX_VALUE, Parser, Result};
use crate::build::{Values, field_dtype, op_dtype};
use crate::nest::{
    Block, Condition, Contraction, Extent, Function, FunctionId, Index, IndexId, Input, Kernel, KernelId, Law, Loop,
    LoopKind, Merge, Op, Prefix, Prologue, Reducer, Reduction, State, Statement, Subscript, ValueId, While,
};
use crate::{BinaryOp, CompareOp, Dtype, Extreme, MathFn, Monoid, Order, UnaryOp};

/// The definitions of a kernel or function so far.
#[derive(Default)]
struct Scope {
    binds: Binds,
    indices: PrimaryMap<IndexId, Index>,
    /// Includes values that the text skips or never defines, as `bool`s.
    values: Values,
}

/// Which indices loops bind.
#[derive(Clone, Copy, Default)]
enum Binds {
    /// New ones.
    #[default]
    New,
    /// Those that the kernel lists at its beginning, and no others.
    Listed,
    /// None: a function has no loops.
    None,
}

impl Scope {
    fn define(&mut self, value: ValueId, dtype: Dtype) {
        while self.values.len() <= value.index() {
            self.values.push(Dtype::Bool);
        }
        self.values[value] = dtype;
    }

    /// Makes room for a value that is mentioned, whether or not it is ever defined.
    fn mention(&mut self, value: ValueId) {
        if self.values.get(value).is_none() {
            self.define(value, Dtype::Bool);
        }
    }
}

/// A value to be defined, with its type if the text states it.
type Definition = (ValueId, Option<Dtype>);

impl Parser<'_> {
    pub(super) fn function(&mut self) -> Result<()> {
        self.word("function")?;
        self.mark("@")?;
        let name = self.name()?;
        if self.functions.contains_key(&name) {
            return Err(self.error_before("a function of this name is there already"));
        }
        self.mark("=")?;
        let math = self.named("a mathematical function", MathFn::from_name)?;
        let mut scope = Scope { binds: Binds::None, ..Scope::default() };
        let params = self.params(&mut scope)?;
        let quotients_in_range = self.take_word("in_range");
        let (body, result) = self.block_of_one(&mut scope)?;
        let values = scope.values;
        let function = Function { name: name.clone(), math, params, values, body, result, quotients_in_range };
        self.functions.insert(name, self.program.functions.push(function));
        Ok(())
    }

    fn params(&mut self, scope: &mut Scope) -> Result<Vec<ValueId>> {
        self.bracketed("(", ")", |p| {
            let value = p.value(scope)?;
            p.mark(":")?;
            scope.define(value, p.dtype()?);
            Ok(value)
        })
    }

    pub(super) fn reducer(&mut self) -> Result<()> {
        self.word("reducer")?;
        self.mark("@")?;
        let name = self.name()?;
        if self.reducers.contains_key(&name) {
            return Err(self.error_before("a reducer of this name is there already"));
        }
        let law = if self.take_word("first") {
            let extreme = |word: &str| match word {
                "max" => Some(Extreme::Greatest),
                "min" => Some(Extreme::Least),
                _ => None,
            };
            Law::First(self.named("`max` or `min`", extreme)?)
        } else {
            let law = |word: &str| match word {
                "ordered" => Some(Law::Ordered),
                "free" => Some(Law::Free),
                _ => None,
            };
            self.named("a law", law)?
        };
        self.word("of")?;
        let identity = self.bracketed("(", ")", |p| {
            let dtype = p.dtype()?;
            p.scalar(dtype)
        })?;
        self.mark("=")?;
        self.word("merge")?;
        let mut scope = Scope { binds: Binds::None, ..Scope::default() };
        let params = self.params(&mut scope)?;
        let (body, results) = self.block(&mut scope)?;
        let reducer = Reducer { name: name.clone(), identity, law, params, values: scope.values, body, results };
        self.reducers.insert(name, self.program.reducers.push(reducer));
        Ok(())
    }

    pub(super) fn kernel(&mut self) -> Result<KernelId> {
        self.word("kernel")?;
        self.mark("@")?;
        let name = self.name()?;
        let origins = if self.take_word("at") { self.list(Self::origin)? } else { vec![] };
        let mut scope = Scope::default();
        self.mark("{")?;
        if self.take_word("indices") {
            self.list(|p| p.index(&mut scope))?;
            scope.binds = Binds::Listed;
        }
        let body = self.statements(&mut scope)?;
        self.mark("}")?;
        let kernel = Kernel { name, indices: scope.indices, values: scope.values, body, origins };
        self.indices.clear();
        Ok(self.program.kernels.push(kernel))
    }

    /// A block and the values it yields.
    fn block(&mut self, scope: &mut Scope) -> Result<(Block, Vec<ValueId>)> {
        self.mark("{")?;
        let body = self.nested(|p| p.statements(scope))?;
        let yields = if self.take_word("yield") { self.list(|p| p.value(scope))? } else { vec![] };
        self.mark("}")?;
        Ok((body, yields))
    }

    fn block_of_none(&mut self, scope: &mut Scope) -> Result<Block> {
        let (body, yields) = self.block(scope)?;
        if yields.is_empty() { Ok(body) } else { Err(self.error_before("this block yields nothing")) }
    }

    fn block_of_one(&mut self, scope: &mut Scope) -> Result<(Block, ValueId)> {
        let (body, yields) = self.block(scope)?;
        match yields[..] {
            [value] => Ok((body, value)),
            _ => Err(self.error_before("this block yields one value")),
        }
    }

    fn statements(&mut self, scope: &mut Scope) -> Result<Block> {
        let mut block = vec![];
        loop {
            let defined = match self.peek() {
                Some(Token::Mark("}") | Token::Word("yield")) => return Ok(block),
                Some(Token::Value(_)) => {
                    let defined = self.list(|p| p.definition(scope))?;
                    self.mark("=")?;
                    defined
                }
                _ => vec![],
            };
            block.push(self.statement(scope, defined)?);
        }
    }

    fn definition(&mut self, scope: &mut Scope) -> Result<Definition> {
        let value = self.value(scope)?;
        let dtype = if self.take_mark(":") { Some(self.dtype()?) } else { None };
        Ok((value, dtype))
    }

    /// A statement after the values that it defines.
    fn statement(&mut self, scope: &mut Scope, defined: Vec<Definition>) -> Result<Statement> {
        match self.peek() {
            Some(Token::Word("if")) => return self.if_(scope, &defined),
            Some(Token::Word("reduce")) => return self.reduce(scope, &defined),
            Some(Token::Word("while")) => return self.while_(scope, &defined),
            _ => {}
        }
        match defined[..] {
            [] => self.effect(scope),
            [definition] if self.take_word("contract") => self.contract(scope, definition),
            [(value, said)] => {
                let op = self.op(scope)?;
                let given = op_dtype(&self.program, &scope.values, &op);
                scope.define(value, said.or(given).unwrap_or(Dtype::Bool));
                Ok(Statement::Let { value, op })
            }
            _ => Err(self.expected("`if`, `reduce` or `while`")),
        }
    }

    /// A statement that defines nothing.
    fn effect(&mut self, scope: &mut Scope) -> Result<Statement> {
        if self.take_word("store") {
            let buffer = self.buffer_use()?;
            let at = self.subscripts(scope)?;
            self.mark(",")?;
            let value = self.value(scope)?;
            return Ok(Statement::Store { buffer, at, value });
        }
        if self.take_word("scatter") {
            let buffer = self.buffer_use()?;
            let at = self.subscripts(scope)?;
            self.mark(",")?;
            let monoid = self.named("a reduction", Monoid::from_name)?;
            let value = self.value(scope)?;
            return Ok(Statement::Scatter { buffer, at, value, monoid });
        }
        if self.take_word("keyed") {
            let keys = self.size()?;
            self.word("row")?;
            let row = self.number()?;
            self.word("over")?;
            let dims = self.list(|p| p.dim(scope))?;
            let body = self.block_of_none(scope)?;
            return Ok(Statement::Loop(Loop { dims, kind: LoopKind::Keyed { keys, row }, body }));
        }
        let kind = |word: &str| match word {
            "parallel" => Some(LoopKind::Parallel),
            "serial" => Some(LoopKind::Serial),
            "scan" => Some(LoopKind::Scan),
            "sort" => Some(LoopKind::Sort),
            _ => None,
        };
        let kind = self.named("a statement", kind)?;
        let once = kind == LoopKind::Parallel && self.peek() == Some(Token::Mark("{"));
        let dims = if once { vec![] } else { self.list(|p| p.dim(scope))? };
        let body = self.block_of_none(scope)?;
        Ok(Statement::Loop(Loop { dims, kind, body }))
    }

    fn if_(&mut self, scope: &mut Scope, defined: &[Definition]) -> Result<Statement> {
        self.word("if")?;
        let condition = self.value(scope)?;
        let (then, yes) = self.block(scope)?;
        let (otherwise, no) = if self.take_word("else") { self.block(scope)? } else { (vec![], vec![]) };
        if yes.len() != defined.len() || no.len() != defined.len() {
            return Err(self.error_before(format!("each side yields {} values", defined.len())));
        }
        let mut results = vec![];
        for ((definition, yes), no) in defined.iter().zip(yes).zip(no) {
            scope.define(definition.0, definition.1.unwrap_or(scope.values[yes]));
            results.push((definition.0, yes, no));
        }
        Ok(Statement::If { condition, then, otherwise, results })
    }

    fn reduce(&mut self, scope: &mut Scope, defined: &[Definition]) -> Result<Statement> {
        self.word("reduce")?;
        let dims = self.list(|p| p.dim(scope))?;
        let body = self.block_of_none(scope)?;
        let mut reductions = vec![];
        let mut rest = defined;
        while !rest.is_empty() {
            if reductions.is_empty() {
                self.word("with")?
            } else {
                self.mark(",")?
            }
            let merge = self.merge()?;
            let order = self.named("an order", Order::from_name)?;
            let inputs = self.inputs(scope)?;
            let Some((own, others)) = rest.split_at_checked(inputs.len()) else {
                return Err(self.error_before("more reductions than the loop defines values for"));
            };
            for (k, (result, said)) in own.iter().enumerate() {
                let given = field_dtype(&self.program, &scope.values, merge, inputs.first(), k);
                scope.define(*result, said.or(given).unwrap_or(Dtype::Bool));
            }
            reductions.push(Reduction { results: own.iter().map(|(v, _)| *v).collect(), merge, order, inputs });
            rest = others;
        }
        Ok(Statement::Loop(Loop { dims, kind: LoopKind::Reduce(reductions), body }))
    }

    fn while_(&mut self, scope: &mut Scope, defined: &[Definition]) -> Result<Statement> {
        self.word("while")?;
        let counter = self.dim(scope)?;
        let carried = if self.take_word("with") { self.list(|p| p.carried_value(scope))? } else { vec![] };
        let condition = if self.take_word("if") {
            let (body, value) = self.block_of_one(scope)?;
            Some(Condition { body, value })
        } else {
            None
        };
        self.word("do")?;
        let (body, next) = self.block(scope)?;
        if carried.len() != defined.len() || next.len() != defined.len() {
            return Err(self.error_before(format!("the loop carries and yields {} values", defined.len())));
        }
        let mut state = vec![];
        for (((result, said), (current, first)), next) in defined.iter().zip(carried).zip(next) {
            scope.define(*result, said.unwrap_or(scope.values[first]));
            state.push(State { first, current, next, result: *result });
        }
        Ok(Statement::While(While { counter, state, condition, body }))
    }

    /// A value that a `while` defines for each of its steps, and its first value.
    fn carried_value(&mut self, scope: &mut Scope) -> Result<(ValueId, ValueId)> {
        let (current, said) = self.definition(scope)?;
        self.mark("=")?;
        let first = self.value(scope)?;
        scope.define(current, said.unwrap_or(scope.values[first]));
        Ok((current, first))
    }

    fn merge(&mut self) -> Result<Merge> {
        if !self.take_mark("@") {
            return Ok(Merge::Monoid(self.named("a reduction", Monoid::from_name)?));
        }
        let name = self.name()?;
        let id = self.reducers.get(&name);
        id.map(|id| Merge::Reducer(*id)).ok_or_else(|| self.error_before(format!("there is no reducer @{name}")))
    }

    /// The state that an element becomes. A single value needs no brackets, and there is at least
    /// one.
    fn inputs(&mut self, scope: &mut Scope) -> Result<Vec<Input>> {
        if !self.take_mark("(") {
            return Ok(vec![self.input(scope)?]);
        }
        let inputs = self.list(|p| p.input(scope))?;
        self.mark(")")?;
        Ok(inputs)
    }

    fn input(&mut self, scope: &mut Scope) -> Result<Input> {
        if self.take_word("number") { Ok(Input::Number) } else { Ok(Input::Value(self.value(scope)?)) }
    }

    fn contract(&mut self, scope: &mut Scope, (result, said): Definition) -> Result<Statement> {
        let free = if matches!(self.peek(), Some(Token::Word("over"))) { vec![] } else { self.list(|p| p.dim(scope))? };
        self.word("over")?;
        let reduce = if matches!(self.peek(), Some(Token::Mark("{"))) { vec![] } else { self.list(|p| p.dim(scope))? };
        let order = if self.take_word(Order::Blocks.name()) { Order::Blocks } else { Order::Lanes };
        self.mark("{")?;
        self.word("left")?;
        let (body, value) = self.block_of_one(scope)?;
        let left = Prologue { body, value };
        self.word("right")?;
        let (body, value) = self.block_of_one(scope)?;
        let right = Prologue { body, value };
        scope.define(result, said.unwrap_or(scope.values[left.value]));
        self.word("epilogue")?;
        let epilogue = self.block_of_none(scope)?;
        self.mark("}")?;
        Ok(Statement::Contract(Contraction { free, reduce, order, left, right, result, epilogue }))
    }

    /// A mention of a value.
    fn value(&mut self, scope: &mut Scope) -> Result<ValueId> {
        let value = self.value_id()?;
        scope.mention(value);
        Ok(value)
    }

    /// The number of a value.
    pub(super) fn value_id(&mut self) -> Result<ValueId> {
        let Some(Token::Value(text)) = self.peek() else { return Err(self.expected("a value such as `v0`")) };
        let number = text[1..].parse().ok().filter(|n| *n < MAX_VALUE);
        let value = ValueId::from_u32(number.ok_or_else(|| self.error("the number is too large"))?);
        self.next += 1;
        Ok(value)
    }

    /// An index where it is bound.
    fn index(&mut self, scope: &mut Scope) -> Result<IndexId> {
        let name = self.name()?;
        match (self.indices.get(&name), scope.binds) {
            (Some(index), Binds::Listed) => Ok(*index),
            (None, Binds::New) => {
                let index = scope.indices.push(Index { name: name.clone() });
                self.indices.insert(name, index);
                Ok(index)
            }
            (Some(_), Binds::New) => Err(self.error_before("an index of this name is there already")),
            (None, Binds::Listed) => Err(self.error_before("this index is not among those of the kernel")),
            (_, Binds::None) => Err(self.error_before("a function has no loops")),
        }
    }

    fn dim(&mut self, scope: &mut Scope) -> Result<(IndexId, Extent)> {
        let index = self.index(scope)?;
        self.mark("<")?;
        let extent = match self.peek() {
            Some(Token::Value(_)) => Extent::Value(self.value(scope)?),
            _ => Extent::Affine(self.affine()?),
        };
        Ok((index, extent))
    }

    fn subscripts(&mut self, scope: &mut Scope) -> Result<Vec<Subscript>> {
        self.bracketed("[", "]", |p| match p.peek() {
            Some(Token::Value(_)) => Ok(Subscript::Value(p.value(scope)?)),
            _ => Ok(Subscript::Affine(p.affine()?)),
        })
    }

    fn op(&mut self, scope: &mut Scope) -> Result<Op> {
        let Some(Token::Word(word)) = self.peek() else { return Err(self.expected("an operation")) };
        self.next += 1;
        Ok(match word {
            "const" => {
                let dtype = self.dtype()?;
                Op::Constant(self.scalar(dtype)?)
            }
            "affine" => Op::Affine(self.affine()?),
            "fma" => {
                let [a, b, c] = self.operands(scope)?;
                Op::Fma(a, b, c)
            }
            "select" => {
                let [condition, a, b] = self.operands(scope)?;
                Op::Select(condition, a, b)
            }
            "cast" => Op::Cast(self.dtype()?, self.value(scope)?),
            "bitcast" => Op::Bitcast(self.dtype()?, self.value(scope)?),
            "call" => Op::Call(self.function_use()?, self.bracketed("(", ")", |p| p.value(scope))?),
            "load" => {
                let buffer = self.buffer_use()?;
                let view = if self.take_word("as") { Some(self.bracketed("[", "]", Self::size)?) } else { None };
                Op::Load { buffer, view, at: self.subscripts(scope)? }
            }
            "check" => {
                let value = self.value(scope)?;
                self.mark("<")?;
                let bound = self.size()?;
                self.word("at")?;
                Op::Check { value, bound, site: self.site_id()? }
            }
            "prefix" => {
                let mut field = 0;
                if matches!(self.peek(), Some(Token::Int(_))) {
                    field = self.number()?;
                    self.word("of")?;
                }
                Op::Prefix(Prefix { merge: self.merge()?, inputs: self.inputs(scope)?, field })
            }
            "place" => Op::Place(self.value(scope)?),
            _ => {
                if let Some(op) = UnaryOp::from_name(word) {
                    return Ok(Op::Unary(op, self.value(scope)?));
                }
                if let Some(op) = BinaryOp::from_name(word) {
                    let [a, b] = self.operands(scope)?;
                    return Ok(Op::Binary(op, a, b));
                }
                let op = CompareOp::from_name(word).ok_or_else(|| self.error_before("there is no such operation"))?;
                let [a, b] = self.operands(scope)?;
                Op::Compare(op, a, b)
            }
        })
    }

    fn operands<const N: usize>(&mut self, scope: &mut Scope) -> Result<[ValueId; N]> {
        let operands = self.list(|p| p.value(scope))?;
        operands.try_into().map_err(|_| self.error_before(format!("expected {N} operands")))
    }

    fn function_use(&mut self) -> Result<FunctionId> {
        self.mark("@")?;
        let name = self.name()?;
        self.functions.get(&name).copied().ok_or_else(|| self.error_before(format!("there is no function @{name}")))
    }
}
