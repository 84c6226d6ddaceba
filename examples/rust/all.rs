//! Runs the examples as tests.

#[path = "errors.rs"]
mod errors;
#[cfg(feature = "gpu")]
#[path = "gpu.rs"]
mod gpu;
#[path = "named.rs"]
mod named;
#[cfg(feature = "ndarray")]
#[path = "ndarray.rs"]
mod of_ndarray;
#[path = "shapes.rs"]
mod shapes;
#[path = "slices.rs"]
mod slices;
#[path = "threads.rs"]
mod threads;

#[test]
fn examples_run() {
    for main in [slices::main, shapes::main, threads::main, named::main, errors::main] {
        main().expect("the example runs");
    }
    #[cfg(feature = "gpu")]
    gpu::main().expect("the example runs");
    #[cfg(feature = "ndarray")]
    of_ndarray::main().expect("the example runs");
}
