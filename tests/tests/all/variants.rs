//! Each variant of a part at sizes that calls would take another one for, on the emulator.

use backends::ptx::{Module, Runner};
use ir::array::Array;
use ir::sched::{Part, Scheduled, Strategy, Variant};
use schedule::{Machine, schedule};
use tests::emulated::Emulated;
use tests::engines::{Engine, Form, Outcome, compile_in};

/// The same with one variant alone, for any sizes, of the parts that have several.
fn with_variant(scheduled: &Scheduled, strategy: Strategy, number: usize) -> Option<Scheduled> {
    let mut only = scheduled.clone();
    let mut found = false;
    let has_several = |part: &&mut Part| part.variants.len() > 1 && part.variants[0].strategy == strategy;
    for part in only.parts.iter_mut().filter(has_several) {
        if let Some(variant) = part.variants.get(number).cloned() {
            part.variants = vec![Variant { at_most: vec![], ..variant }];
            found = true;
        }
    }
    found.then_some(only)
}

/// Runs a form in each variant. Returns their number.
fn hold(form: &Form, checked: &ir::checked::Checked, strategy: Strategy, shapes: &[[usize; 2]]) -> usize {
    let scheduled = schedule(&form.program, Machine::PTX).unwrap();
    let variants: Vec<Scheduled> = (0..).map_while(|number| with_variant(&scheduled, strategy, number)).collect();
    for (number, scheduled) in variants.iter().enumerate() {
        let mut runner = Runner::new(Module::compile(scheduled).unwrap(), Emulated::new(3), None);
        for [n, m] in shapes {
            let elements: Vec<f32> = (0..n * m).map(|k| (k * 7919 % 1009) as f32 * 0.37 - 180.0).collect();
            let x = Array::from_slice(&[*n, *m], &elements).unwrap();
            let inputs = [x.as_ref()];
            let Outcome::Results(meant) = form.run(checked, Engine::Nest, &inputs) else { panic!("no results") };
            let mut outputs: Vec<Array> = meant.iter().map(|y| Array::zeros(y.dtype(), y.shape()).unwrap()).collect();
            let mut places: Vec<_> = outputs.iter_mut().map(Array::as_mut).collect();
            runner.call(&inputs, &mut places, None).unwrap();
            assert!(Outcome::Results(outputs) == Outcome::Results(meant), "variant {number}, {n} x {m}");
        }
    }
    variants.len()
}

/// The most variants that a form of a function has.
fn most_variants(body: &str, strategy: Strategy, shapes: &[[usize; 2]]) -> Option<usize> {
    let compiled = compile_in(&format!("fn main(x: f32[n, m]) {{ {body} }}"), "main", &[]).unwrap();
    compiled.forms.iter().map(|form| hold(form, &compiled.checked, strategy, shapes)).max()
}

#[test]
fn every_shape_of_strips_gives_the_same_bits() {
    let shapes = [[1, 1], [3, 33], [256, 8], [257, 9], [1300, 7], [4097, 10]];
    for body in [
        "let e = exp(x - max(x, axis = 0)); e / sum(e, axis = 0)",
        "let m = mean(x, axis = 0); sqrt(sum((x - m) * (x - m), axis = 0))",
        "(argmax(x, axis = 0), x - sum(x, axis = 0))",
    ] {
        assert_eq!(most_variants(body, Strategy::Strips, &shapes), Some(3), "{body}");
    }
}

#[test]
fn a_thread_goes_through_short_loops_like_a_block() {
    let shapes = [[1, 1], [5, 15], [40, 16], [9, 17], [4, 33], [3, 300]];
    for body in [
        "let s[i, j] = sum[p]((x[i, p] - x[j, p]) ^ 2); argmin(s, axis = 1)",
        "let s[i, j] = sum[p](abs(x[i, p] - x[j, p])); (max(s, axis = 1), sum(s, axis = 1))",
    ] {
        assert_eq!(most_variants(body, Strategy::Threads, &shapes), Some(2), "{body}");
    }
}
