//! Reductions and running reductions, as `ir::order` defines them: written from its text, step by step.

use ir::order::{BLOCK, LANES, LANES_CHUNK, SCAN_CHUNK, SCAN_GROUP};
use ir::{BinaryOp, CompareOp, Dtype, Order, ReduceOp, Scalar};

use crate::scalar::{binary, compare};

/// The reduction of elements of type `dtype`, in their order.
pub fn reduce(op: ReduceOp, order: Order, dtype: Dtype, elements: &[Scalar]) -> Scalar {
    let mut reduction = Reduction::new(op, order, dtype);
    elements.iter().for_each(|x| reduction.push(*x));
    reduction.finish()
}

/// A reduction under way: takes its elements one by one and keeps a chunk of them.
pub struct Reduction {
    op: ReduceOp,
    order: Order,
    dtype: Dtype,
    /// The elements of the chunk or block that is not full.
    pending: Vec<Scalar>,
    /// The results of full chunks or blocks, pairs of equal height combined as they arrive: each
    /// with its height in the tree, heights decreasing.
    done: Vec<(u32, Scalar)>,
    /// What there is in the other orders, which need no chunks.
    running: Running,
    last: Scalar,
}

impl Reduction {
    /// A reduction of elements of type `dtype`.
    pub fn new(op: ReduceOp, order: Order, dtype: Dtype) -> Reduction {
        let running = Running::new(op, order, dtype);
        let last = running.of_none();
        Reduction { op, order, dtype, pending: vec![], done: vec![], running, last }
    }

    /// Takes the next element.
    pub fn push(&mut self, x: Scalar) {
        let full = match self.order {
            Order::Lanes => LANES_CHUNK,
            Order::Blocks => BLOCK,
            Order::Free | Order::Scan => {
                self.last = self.running.push(x);
                return;
            }
        };
        self.pending.push(x);
        if self.pending.len() == full {
            self.end_chunk();
        }
    }

    /// The result.
    pub fn finish(mut self) -> Scalar {
        if !self.pending.is_empty() {
            self.end_chunk();
        }
        match self.order {
            Order::Lanes | Order::Blocks => {
                let joined = self.done.into_iter().map(|(_, x)| x).rev().reduce(|right, x| combine(self.op, x, right));
                joined.unwrap_or_else(|| identity(self.op, self.dtype))
            }
            Order::Free | Order::Scan => self.last,
        }
    }

    fn end_chunk(&mut self) {
        let mut sum = match self.order {
            Order::Lanes => lanes(self.op, self.dtype, &self.pending),
            _ => ascending(self.op, self.dtype, &self.pending),
        };
        let mut height = 0;
        while let Some((_, left)) = self.done.pop_if(|(other, _)| *other == height) {
            sum = combine(self.op, left, sum);
            height += 1;
        }
        self.done.push((height, sum));
        self.pending.clear();
    }
}

/// The result of a chunk in the order by lanes.
fn lanes(op: ReduceOp, dtype: Dtype, chunk: &[Scalar]) -> Scalar {
    let mut lane = [identity(op, dtype); LANES];
    for (i, x) in chunk.iter().enumerate() {
        lane[i % LANES] = combine(op, lane[i % LANES], *x);
    }
    let mut h = LANES / 2;
    while h >= 1 {
        for l in 0..h {
            lane[l] = combine(op, lane[l], lane[l + h]);
        }
        h /= 2;
    }
    lane[0]
}

fn ascending(op: ReduceOp, dtype: Dtype, elements: &[Scalar]) -> Scalar {
    elements.iter().fold(identity(op, dtype), |acc, x| combine(op, acc, *x))
}

/// `a o b` of every operation but `argmax` and `argmin`.
fn combine(op: ReduceOp, a: Scalar, b: Scalar) -> Scalar {
    match op {
        ReduceOp::Sum => binary(BinaryOp::Add, a, b),
        ReduceOp::Prod => binary(BinaryOp::Mul, a, b),
        ReduceOp::Max | ReduceOp::Any => binary(BinaryOp::Max, a, b),
        ReduceOp::Min | ReduceOp::All => binary(BinaryOp::Min, a, b),
        ReduceOp::ArgMax | ReduceOp::ArgMin => a,
    }
}

/// The result of nothing.
pub fn identity(op: ReduceOp, dtype: Dtype) -> Scalar {
    match op {
        ReduceOp::Sum | ReduceOp::Any => Scalar::zero(dtype),
        ReduceOp::Prod | ReduceOp::All => Scalar::one(dtype),
        ReduceOp::Max => extremes(dtype).0,
        ReduceOp::Min => extremes(dtype).1,
        ReduceOp::ArgMax | ReduceOp::ArgMin => Scalar::I64(0),
    }
}

/// The least and the greatest value of a type.
fn extremes(dtype: Dtype) -> (Scalar, Scalar) {
    match dtype {
        Dtype::Bool => (Scalar::Bool(false), Scalar::Bool(true)),
        Dtype::I8 => (Scalar::I8(i8::MIN), Scalar::I8(i8::MAX)),
        Dtype::U8 => (Scalar::U8(u8::MIN), Scalar::U8(u8::MAX)),
        Dtype::I32 => (Scalar::I32(i32::MIN), Scalar::I32(i32::MAX)),
        Dtype::I64 => (Scalar::I64(i64::MIN), Scalar::I64(i64::MAX)),
        Dtype::U32 => (Scalar::U32(u32::MIN), Scalar::U32(u32::MAX)),
        Dtype::U64 => (Scalar::U64(u64::MIN), Scalar::U64(u64::MAX)),
        Dtype::F16 => (Scalar::F16(half::f16::NEG_INFINITY), Scalar::F16(half::f16::INFINITY)),
        Dtype::Bf16 => (Scalar::Bf16(half::bf16::NEG_INFINITY), Scalar::Bf16(half::bf16::INFINITY)),
        Dtype::F32 => (Scalar::F32(f32::NEG_INFINITY), Scalar::F32(f32::INFINITY)),
        Dtype::F64 => (Scalar::F64(f64::NEG_INFINITY), Scalar::F64(f64::INFINITY)),
    }
}

/// A running reduction: each element in, the inclusive prefix out.
pub struct Running {
    op: ReduceOp,
    dtype: Dtype,
    order: Order,
    /// How many elements there were.
    count: usize,
    /// All so far, where order does not matter; for `argmax` and `argmin` the element that leads.
    total: Scalar,
    /// For `argmax` and `argmin`: the number of the leading element.
    leader: usize,
    /// The elements of the group that is not full.
    group: Vec<Scalar>,
    carry: Scalar,
    chunk: Scalar,
}

impl Running {
    /// A running reduction of elements of type `dtype`, in [`Order::Scan`] or [`Order::Free`].
    pub fn new(op: ReduceOp, order: Order, dtype: Dtype) -> Running {
        let e = identity(op, dtype);
        Running { op, dtype, order, count: 0, total: e, leader: 0, group: vec![], carry: e, chunk: e }
    }

    /// The reduction of no element.
    pub fn of_none(&self) -> Scalar {
        identity(self.op, self.dtype)
    }

    /// The reduction of the elements up to and with this one.
    pub fn push(&mut self, x: Scalar) -> Scalar {
        let number = self.count;
        self.count += 1;
        match self.op {
            ReduceOp::ArgMax => self.lead(number, x, CompareOp::Gt),
            ReduceOp::ArgMin => self.lead(number, x, CompareOp::Lt),
            _ if self.order == Order::Scan => self.scan(x),
            _ => {
                self.total = combine(self.op, self.total, x);
                self.total
            }
        }
    }

    fn lead(&mut self, number: usize, x: Scalar, beats: CompareOp) -> Scalar {
        let ahead = !self.total.is_nan() && (x.is_nan() || compare(beats, x, self.total));
        if number == 0 || ahead {
            self.total = x;
            self.leader = number;
        }
        Scalar::I64(i64::try_from(self.leader).unwrap_or(i64::MAX))
    }

    fn scan(&mut self, x: Scalar) -> Scalar {
        let op = self.op;
        self.group.push(x);
        // An element's prefix in its group depends on none after it: a group that is not full serves.
        let mut p = self.group.clone();
        let mut d = 1;
        while d < SCAN_GROUP {
            let before = p.clone();
            for i in d..p.len() {
                p[i] = combine(op, before[i - d], before[i]);
            }
            d *= 2;
        }
        let last = p[p.len() - 1];
        let prefix = combine(op, self.chunk, combine(op, self.carry, last));
        if self.group.len() == SCAN_GROUP {
            self.carry = combine(op, self.carry, last);
            self.group.clear();
        }
        if self.count.is_multiple_of(SCAN_CHUNK) {
            self.chunk = combine(op, self.chunk, self.carry);
            self.carry = self.of_none();
        }
        prefix
    }
}
