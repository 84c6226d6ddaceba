//! Errors are data with a code and a place in the source, and can be drawn over it.
//!
//! ```sh
//! cargo run --release --example errors
//! ```

use fuseloop::{Options, Program, RunErrorKind, Source, Style, errors};

/// The errors of a program, of a call that does not fit, and of data.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    // All errors of a program come at once.
    let source = Source::new("bad.fl", "fn f(x: f32[n]) = y + 1\nfn g(x: f32[n], y: f32[m]) = x + y\n");
    let found = Program::parse(source).unwrap_err();
    println!("{}\n", found.render(Style::Plain));
    let codes: Vec<String> = found.diagnostics().iter().map(|one| one.code.to_string()).collect();
    assert_eq!(codes, ["E0101", "E0147"]);

    // Arguments are checked before anything runs.
    let source = Source::new("picked.fl", "fn picked(x: f32[n], at: i64[m]) = x[at]\n");
    let kernel = Program::parse(source)?.main()?.compile(&Options::default())?;
    let error = kernel.call((&[1.0f64, 2.0], &[0i64])).unwrap_err();
    println!("{error}\n");
    assert!(matches!(error.kind(), RunErrorKind::ArgumentType { param, .. } if param == "x"));

    // Data that the program cannot use is found as it runs. The caller's memory stays as it was.
    let mut out = [7.0f32; 2];
    let error = kernel.call_into((&[1.0f32, 2.0], &[1i64, 5]), (&mut out,)).unwrap_err();
    println!("{}\n", error.render(Style::Plain));
    let RunErrorKind::Access { index, bound, at, .. } = error.kind() else { panic!("a subscript is out of bounds") };
    assert_eq!((*index, *bound, &error.source().text[at.clone()]), (5, 2, "at"));
    assert_eq!(out, [7.0; 2]);

    // Each code has a page.
    let page = errors::find(&error.code().to_string())?.page;
    println!("{}", page.lines().next().unwrap_or_default());
    Ok(())
}
