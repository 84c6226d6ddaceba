//! Arguments by name, for callers that learn only at run time which function they call: the
//! signature says what it takes and gives.
//!
//! ```sh
//! cargo run --release --example named
//! ```

use std::collections::BTreeMap;

use fuseloop::{Array, Input, Options, Program};

/// Functions that share names of parameters.
const SOURCE: &str = "
fn simple(principal: f64[n], rate: f64, years: i64) = principal * (1 + rate * f64(years))
fn compound(principal: f64[n], rate: f64, years: i64) = principal * pow(1 + rate, f64(years))
fn future(payment: f64, rate: f64, years: i64) = payment * (pow(1 + rate, f64(years)) - 1) / rate
";

/// Calls every function with what it asks for.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = Program::parse(SOURCE)?;
    let known: BTreeMap<&str, Array> = [
        ("principal", Array::from(vec![100.0f64, 250.0])),
        ("payment", Array::scalar(10.0f64)),
        ("rate", Array::scalar(0.5f64)),
        ("years", Array::scalar(2i64)),
    ]
    .into();

    let mut found = vec![];
    for signature in program.functions() {
        println!("{signature}");
        let kernel = program.function(&signature.name)?.compile(&Options::default())?;
        let inputs: Vec<(&str, &dyn Input)> = signature
            .params
            .iter()
            .filter_map(|param| known.get_key_value(param.name.as_str()))
            .map(|(name, array)| (*name, array as &dyn Input))
            .collect();
        let results = kernel.call_named(&inputs)?;
        for (slot, result) in signature.results.iter().zip(&results) {
            println!("    {}: {} = {:?}", slot.name, slot.ty(), result.as_slice::<f64>()?);
            found.extend_from_slice(result.as_slice::<f64>()?);
        }
    }
    assert_eq!(found, [200.0, 500.0, 225.0, 562.5, 25.0]);

    // A name that is no parameter's, or a missing one, is an error that says so.
    let kernel = program.function("future")?.compile(&Options::default())?;
    let error = kernel.call_named(&[("rate", &0.5f64), ("year", &2i64)]).unwrap_err();
    assert_eq!(error.to_string(), "the function has no parameter `year`, but `payment`, `rate`, `years`");
    Ok(())
}
