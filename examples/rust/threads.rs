//! A kernel is `Send` and `Sync`: any number of threads may call it at once. Each call may use
//! several threads itself, and can be cancelled.
//!
//! ```sh
//! cargo run --release --example threads
//! ```

use std::thread;
use std::time::{Duration, Instant};

use fuseloop::{CallOptions, Cancel, Options, Program};

/// A short function, and one that takes minutes.
const SOURCE: &str = "
fn norm(x: f64[n]) = sqrt(sum(x * x))
fn forever(n: i64) = sum[i < n, j < n](sin(f64(i * j)))
";

/// Calls from several threads, and a call that is cancelled.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = Program::parse(SOURCE)?;

    // Where the program has threads of its own, one for each call is right.
    let norm = program.function("norm")?.compile(&Options { threads: 1, ..Options::default() })?;
    let lengths = [1usize, 4, 100];
    let results = thread::scope(|scope| {
        let call = |length| norm.call((&vec![2.0f64; length],));
        let callers = lengths.map(|length| scope.spawn(move || call(length)));
        callers.map(|caller| caller.join().expect("a call does not panic"))
    });
    let mut norms = vec![];
    for result in results {
        norms.push(result?[0].as_slice::<f64>()?[0]);
    }
    println!("{norms:?}");
    assert_eq!(norms, [2.0, 4.0, 20.0]);

    // By default a call uses all cores. The bits of its results do not depend on how many.
    let all = program.function("norm")?.compile(&Options::default())?;
    let x: Vec<f64> = (0..100_000).map(|i| 1.0 / f64::from(i + 1)).collect();
    assert_eq!(all.call((&x,))?, norm.call((&x,))?);

    // Whoever holds a `Cancel` can end the call.
    let forever = program.function("forever")?.compile(&Options::default())?;
    let cancel = Cancel::default();
    let begin = Instant::now();
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            cancel.cancel();
        });
        forever.call_with((1_000_000i64,), &CallOptions::until(&cancel)).map(drop).unwrap_err()
    });
    println!("{error}, after {:?}", begin.elapsed());
    assert_eq!(error.code().to_string(), "E0243");
    Ok(())
}
