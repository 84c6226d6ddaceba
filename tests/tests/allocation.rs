//! Allocation failures anywhere in a call: the n-th allocation fails, for each n until the call
//! succeeds. Each time the call either ends with E0241 and leaves the results' memory as it was, or
//! gives the right results with fewer threads; the next call gives the right results.
//!
//! Only allocations of more than [`SMALL`] bytes fail: arrays, temporaries, and memory of threads.
//! Smaller ones are bookkeeping in proportion to the program, or of bounded size; their failure
//! ends the process as everywhere in Rust (ARCHITECTURE.md, "A call").
//!
//! And a call allocates nothing for an iteration of a loop over kernels.
//!
//! The tests are in a binary of their own, because they set the global allocator, and take turns.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use backends::cpu;
use fuseloop::{Array, ArrayRef, Device, Dtype, Kernel, Options, Program, RunError};
use schedule::{Machine, schedule};

/// Allocations of up to this many bytes never fail.
const SMALL: usize = 64 << 10;

/// The system allocator, except that it fails one allocation.
struct Refusing;

/// The countdown to the allocation that fails; `u64::MAX` if none does.
static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

/// How many allocations there have been.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Held by the test that runs.
static TURN: Mutex<()> = Mutex::new(());

/// Counts an allocation; returns whether it is the one to fail.
fn refuses(bytes: usize) -> bool {
    COUNT.fetch_add(1, Ordering::Relaxed);
    bytes > SMALL
        && LEFT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
                0 | u64::MAX => None,
                left => Some(left - 1),
            })
            .is_ok_and(|before| before == 1)
}

// SAFETY: forwards to the system allocator, which has the same contract. Null is a valid answer.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract.
        if refuses(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract.
        if refuses(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract.
        if refuses(bytes) { std::ptr::null_mut() } else { unsafe { System.realloc(memory, layout, bytes) } }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Programs with results, temporaries, per-thread rows, results held back for a late check, chunks
/// of sums and scans, and columns.
const SOURCE: &str = "
    fn rows(x: f32[n, m]) {
        let y[i < n, j < m] = exp(x[i, j] - max[k < m](x[i, k])) / sum[k < m](exp(x[i, k]))
        y
    }
    fn chain(x: f32[n, m]) {
        let v = reshape(x, _)
        let c[i < n * m] = sum[k <= i](v[k])
        let r[i < n * m] = c[n * m - 1 - i] / sum(c)
        let s[i < n * m] = sum[k <= i](r[k])
        (s, r)
    }
    fn late(x: f32[n, m]) {
        let d = x * 2
        let at[i < n] = i64(d[i, 0]) % n
        (d, sum(x, axis = 1)[at])
    }
    fn columns(x: f32[n, m]) = (sum(x, axis = 0), transpose(x), x - mean(x, axis = 0))
    fn drawn(x: f32[n, m]) = sum[i < n * m * 2](uniform(1, i)) + x
";

/// Calls the kernel, with allocation number `refused` failing if given; writes to the memory of
/// `mine` if given. Returns the outcome, and whether that allocation was reached.
fn call(
    kernel: &Kernel,
    x: ArrayRef<'_>,
    mine: Option<&mut [Array]>,
    refused: Option<u64>,
) -> (Result<Vec<Array>, RunError>, bool) {
    LEFT.store(refused.unwrap_or(u64::MAX), Ordering::Relaxed);
    let done = match mine {
        None => kernel.call(&[x]),
        Some(mine) => kernel.call_into(&[x], mine).map(|()| vec![]),
    };
    let met = LEFT.swap(u64::MAX, Ordering::Relaxed) == 0;
    (done, met)
}

/// Fails each allocation of a first call in turn; returns how many there are.
fn hold(compile: impl Fn() -> Kernel, x: ArrayRef<'_>, expected: &[Array], into: bool, what: &str) -> u64 {
    for refused in 1.. {
        // A new kernel each time, because a kernel keeps memory for its next call.
        let kernel = compile();
        let mut mine: Vec<Array> = expected.to_vec();
        mine.iter_mut().for_each(|array| array.bytes_mut().fill(0xa5));
        let (done, met) = call(&kernel, x, into.then_some(&mut mine), Some(refused));
        let what = format!("{what}, into {into}, allocation {refused}");
        match done {
            Ok(results) => assert!(if into { &mine } else { &results } == expected, "{what}: other results"),
            Err(error) => {
                assert_eq!(error.code().to_string(), "E0241", "{what}: {error}");
                let untouched = mine.iter().all(|array| array.bytes().iter().all(|byte| *byte == 0xa5));
                assert!(met && untouched, "{what}: results are half written");
            }
        }
        let (again, _) = call(&kernel, x, None, None);
        assert!(again.is_ok_and(|again| again == expected), "{what}: the next call");
        if !met {
            return refused - 1;
        }
    }
    unreachable!("a call makes a finite number of allocations")
}

#[test]
fn a_call_survives_every_allocation_that_fails() {
    let _turn = TURN.lock();
    let program = Program::parse(SOURCE).unwrap();
    let mut count = 0;
    for (device, threads, shape) in
        [(Device::Cpu, 1, [300, 700]), (Device::Cpu, 4, [300, 700]), (Device::Interp, 1, [60, 500])]
    {
        let options = Options { device, threads, ..Options::default() };
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(|n: usize| (n * 37 % 1001) as f32 / 64.0).collect();
        let aligned = Array::from_slice(&shape, &values).unwrap();
        // A call copies an array that is not aligned to its elements.
        let shifted = [&[0], aligned.bytes()].concat();
        for x in [aligned.as_ref(), ArrayRef::new(Dtype::F32, &shape, &shifted[1..]).unwrap()] {
            for signature in program.functions() {
                let compile = || program.function(&signature.name).unwrap().compile(&options).unwrap();
                let (expected, _) = call(&compile(), x, None, None);
                let expected = expected.unwrap();
                for into in [false, true] {
                    count += hold(compile, x, &expected, into, &format!("{} {device:?} {threads}", signature.name));
                }
            }
        }
    }
    assert!(count > 100, "{count} allocations were refused");
}

/// Loops over kernels, one in another, with a temporary and a row for each thread.
const LOOPS: &str = "program @p {
  symbol n = dim 0 of input 0
  symbol t = value of input 1
  input %x: f32[n, n]
  input %t: i64
  output %y: f32[n, n]
  temp %a: f32[n, n]
  temp %a1: f32[n, n]
  temp %b: f32[n, n]
  temp %b1: f32[n, n]
  temp %w: f32[n, n]
  scratch %s: f32[n]
  repeat t with %a = %x then %a1 {
    kernel @w { parallel i < n, j < n { v0 = load %a[j, i] store %w[i, j], v0 } }
    repeat 3 with %b = %w then %b1 {
      kernel @b1 { parallel i < n {
        v1 = reduce j < n { v0 = load %b[i, j] store %s[j], v0 } with sum lanes v0
        parallel k < n { v2 = load %s[k] v3 = sub v2, v1 store %b1[i, k], v3 } } }
    }
    kernel @a1 { parallel i < n, j < n { v0 = load %b[i, j] v1 = load %w[i, j] v2 = max v0, v1 store %a1[i, j], v2 } }
  }
  kernel @y { parallel i < n, j < n { v0 = load %a[i, j] store %y[i, j], v0 } }
}";

#[test]
fn iterations_allocate_nothing() {
    let _turn = TURN.lock();
    let program: ir::nest::Program = LOOPS.parse().unwrap();
    ir::verify::verify(&program).unwrap();
    let options = cpu::Options { least_share: 0, wake_from: 0, ..cpu::Options::default() };
    let module = cpu::Module::compile(&schedule(&program, Machine::CPU).unwrap(), &options).unwrap();
    let x = Array::zeros(Dtype::F32, &[70, 70]).unwrap();
    let mut y = x.clone();
    for threads in [1, 2] {
        let mut allocations = |trips: i64| {
            let trips = Array::scalar(trips);
            // The first call of these sizes makes its frame. During another one, the harness may
            // allocate to report the test before.
            let counts = [(); 4].map(|()| {
                let before = COUNT.load(Ordering::Relaxed);
                module.run(&[x.as_ref(), trips.as_ref()], &mut [y.as_mut()], threads).unwrap();
                COUNT.load(Ordering::Relaxed) - before
            });
            counts[1..].iter().copied().min()
        };
        assert_eq!(allocations(500), allocations(1), "{threads} threads");
    }
}
