//! The tester's own parts: saved cases are read back, changes do not change results, and workers
//! may crash.

use std::process::Command;
use std::time::Duration;

use backends::cpu::{MemoryRegime, Simd};
use compiler::pipeline::Options;
use fuzzing::case::{Case, Setting, Through, draw};
use fuzzing::engines::Engine;
use fuzzing::judge::{Kind, Rigour, Verdict, check, judge};
use fuzzing::numpy::Batch;
use fuzzing::supervisor::Worker;
use fuzzing::variation::{Change, Variation};
use fuzzing::worker::Request;
use ir::{Array, Dtype};

const ENGINES: [Engine; 4] = [Engine::Nest, Engine::Cpu(2, Simd::W128), Engine::Cpu(1, Simd::Auto), Engine::Ptx];

#[test]
fn cases_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 0..60 {
        let drawn = draw(seed, &ENGINES);
        let arguments = drawn.calls.into_iter().next().expect("a call");
        let case = Case { setting: drawn.setting, arguments };
        case.save(folder.path()).expect("room for a case");
        let again = Case::load(folder.path()).expect("what was saved");
        assert_eq!(again.setting, case.setting);
        // Arrays are equal on bits except for which NaN, and so are these.
        let shown = |case: &Case| -> Vec<_> {
            case.arguments.iter().map(|(name, a)| (name.clone(), a.shape().to_vec(), a.bytes().to_vec())).collect()
        };
        assert_eq!(shown(&again), shown(&case));
    }
    assert!(Case::load(&folder.path().join("nowhere")).is_err());
}

#[test]
fn threads_meet_in_some_programs() {
    let meeting = |engine| (0..400).filter(|seed| draw(*seed, &[engine]).setting.meet).count();
    let on_two = meeting(Engine::Cpu(2, Simd::W128));
    assert!((60..=140).contains(&on_two), "{on_two} of 400");
    assert_eq!(meeting(Engine::Cpu(1, Simd::W128)) + meeting(Engine::Nest), 0);
}

#[test]
fn engines_are_told_by_their_names() {
    for engine in ENGINES.into_iter().chain([Engine::Gpu, Engine::Source, Engine::Cpu(7, Simd::W512)]) {
        assert_eq!(engine.to_string().parse(), Ok(engine));
    }
    for text in ["", "cpu", "cpu:x:auto", "cpu:1:129", "ptx"] {
        assert!(text.parse::<Engine>().is_err(), "{text}");
    }
}

#[test]
fn most_programs_are_valid_and_changes_keep_them_so() {
    let (mut valid, mut changed) = (0, 0);
    for seed in 0..300 {
        let drawn = draw(seed, &ENGINES);
        let (source, entry) = (&drawn.setting.source, &drawn.setting.entry);
        if check(source, entry).is_err() {
            continue;
        }
        valid += 1;
        if let Some(varied) = Variation::drawn(seed).apply(source, entry) {
            changed += 1;
            assert_ne!(varied, *source);
            check(&varied, entry).unwrap_or_else(|why| panic!("{why}\n{varied}"));
        }
    }
    assert!(valid * 100 >= 95 * 300, "{valid} of 300");
    assert!(changed > 100, "{changed} of 300");
}

#[test]
fn engines_agree_on_some_programs() {
    for seed in 1000..1060 {
        let drawn = draw(seed, &ENGINES);
        let judged = judge(&drawn.setting, &drawn.calls, Rigour::Bits);
        assert!(!matches!(judged.verdict, Verdict::Failed { .. }), "{seed}: {:?}", judged.verdict);
    }
}

/// A requirement holds even for values that no result needs. In the conditional terms of a split
/// sum it becomes a check, which no computed value reaches.
#[test]
fn what_is_refused_may_be_a_check_in_a_sum_that_is_split() {
    let source = "fn main(y: i64[m]) {\n    let d = sum[r < 1](argmax[s < m](1))\n    1\n}\n";
    let empty = vec![("y".to_owned(), Array::zeros(Dtype::I64, &[0]).expect("no element"))];
    let setting = |change| Setting {
        source: source.to_owned(),
        entry: "main".to_owned(),
        options: Options::default(),
        engine: Engine::Nest,
        through: Through::Backend,
        meet: false,
        far: MemoryRegime::Auto,
        variation: Some(Variation { change, seed: 0 }),
    };
    for change in [Change::Split, Change::DeadCode] {
        let setting = setting(change);
        assert!(Variation { change, seed: 0 }.apply(source, "main").is_some(), "{change:?}");
        let judged = judge(&setting, std::slice::from_ref(&empty), Rigour::Bits);
        assert_eq!((judged.verdict, judged.outcomes), (Verdict::Passed, vec!["refused"]), "{change:?}");
    }
}

/// `.ci/run` compares their results with NumPy's.
#[test]
fn programs_for_numpy_are_valid() {
    let batch = Batch::new(0..150);
    assert!(batch.faults.is_empty(), "{}", batch.faults.join("\n"));
    let results = batch.script.matches("\ncall(").count() - batch.script.matches(", None)\n").count();
    assert!(results > 120, "{results} of 150 have results");
}

/// The answer of a worker that does this.
fn answer(start: &(dyn Fn() -> Command + Sync)) -> Verdict {
    let mut worker = Worker::new(start, Duration::from_millis(300)).expect("a folder");
    worker.ask(&Request::Draw { from: 0, count: 1 }).expect("a process");
    worker.answer().expect("an answer").verdict
}

#[test]
#[cfg(unix)]
fn a_worker_that_ends_or_hangs_is_a_failure() {
    let shell = |script: &'static str| {
        move || {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        }
    };
    let ends = answer(&shell("read line; kill -SEGV $$"));
    assert!(matches!(&ends, Verdict::Failed { kind: Kind::Crash, message, .. } if message.contains("11")), "{ends:?}");
    let hangs = answer(&shell("read line; exec sleep 60"));
    assert!(matches!(hangs, Verdict::Failed { kind: Kind::Hang, .. }), "{hangs:?}");
}
