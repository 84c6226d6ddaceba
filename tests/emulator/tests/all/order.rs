//! Visibility of writes to other threads: blocks pass a word by a flag, in every way that orders
//! the accesses and in ways that only appear to.

use emulator::{Launch, Memory, Problem, Space};

use crate::common::{launch, put, run, words};

/// A loop until the word at an address is a number.
fn wait(load: &str, address: &str, value: u32) -> String {
    let label = format!("$until_{}_{value}", address.trim_start_matches('%'));
    format!("{label}: ld.{load}.gpu.global.u32 %x, [{address}]; setp.ne.u32 %p, %x, {value}; @%p bra {label};\n")
}

/// A kernel in which each block runs its own code.
fn kernel(blocks: &[String]) -> String {
    let mut text = String::from(
        ".visible .entry k(.param .u64 data, .param .u64 flag, .param .u64 turn)
        {
        .reg .u32 %b, %t, %x, %y;
        .reg .u64 %data, %flag, %turn;
        .reg .pred %p, %q;
        ld.param.u64 %data, [data]; ld.param.u64 %flag, [flag]; ld.param.u64 %turn, [turn];
        mov.u32 %b, %ctaid.x; mov.u32 %t, %tid.x; setp.eq.u32 %q, %t, 0;\n",
    );
    for (number, code) in blocks.iter().enumerate() {
        text += &format!("setp.ne.u32 %p, %b, {number}; @%p bra $not_{number};\n{code}\nret;\n$not_{number}:\n");
    }
    text + "ret;\n}\n"
}

/// Runs the blocks under several orders of turns and returns whether all are free of races;
/// otherwise all must race for the data.
fn ordered(blocks: &[String], threads: u32) -> bool {
    let outcomes: Vec<bool> = (0..5)
        .map(|seed| {
            let mut memory = Memory::new();
            let data = put(&mut memory, &words(&[0; 4]));
            let (flag, turn) = (put(&mut memory, &words(&[0])), put(&mut memory, &words(&[0])));
            let shape = Launch { seed, ..launch(blocks.len() as u32, threads, 0) };
            match run(&kernel(blocks), &mut memory, shape, &[data, flag, turn]) {
                Ok(_) => true,
                Err(fault) => {
                    let race = Problem::Race { space: Space::Global, address: data, other: Default::default(), line: 0 };
                    let same = matches!((&fault.what, &race), (Problem::Race { address: a, .. }, Problem::Race { address: b, .. }) if a == b);
                    assert!(same, "{fault}\n{}", kernel(blocks));
                    false
                }
            }
        })
        .collect();
    assert!(outcomes.iter().all(|o| *o == outcomes[0]), "{outcomes:?}\n{}", kernel(blocks));
    outcomes[0]
}

const WRITE: &str = "st.global.u32 [%data], 7;\n";
const READ: &str = "ld.global.u32 %y, [%data];";

/// Block 0 writes the data and raises the flag by `raise`; block 1 waits for it by `load`, does
/// `then`, and reads.
fn handed_over(raise: &str, load: &str, then: &str) -> bool {
    ordered(&[format!("{WRITE}{raise}"), wait(load, "%flag", 1) + then + READ], 1)
}

#[test]
fn releases_meet_acquires() {
    for raise in [
        "st.release.gpu.global.u32 [%flag], 1;",
        "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%flag], 1;",
        "fence.sc.sys; st.volatile.global.u32 [%flag], 1;",
        "membar.gl; red.global.add.u32 [%flag], 1;",
        "red.release.gpu.global.add.u32 [%flag], 1;",
        "atom.acq_rel.sys.global.exch.b32 %x, [%flag], 1;",
    ] {
        assert!(handed_over(raise, "acquire", ""), "{raise}");
        assert!(handed_over(raise, "relaxed", "fence.acq_rel.gpu;"), "{raise}");
        assert!(handed_over(raise, "relaxed", "atom.acquire.gpu.global.add.u32 %x, [%flag], 0;"), "{raise}");
        assert!(!handed_over(raise, "relaxed", ""), "{raise}");
        assert!(!handed_over(raise, "relaxed", "membar.cta;"), "{raise}");
        assert!(!handed_over(raise, "relaxed", "atom.acquire.gpu.global.add.u32 %x, [%turn], 0;"), "{raise}");
    }
}

#[test]
fn what_releases_nothing() {
    for raise in [
        "st.relaxed.gpu.global.u32 [%flag], 1;",
        "membar.cta; st.relaxed.gpu.global.u32 [%flag], 1;",
        "st.relaxed.gpu.global.u32 [%flag], 1; fence.acq_rel.gpu;",
        "red.global.add.u32 [%flag], 1;",
        "st.release.gpu.global.u32 [%turn], 1; st.relaxed.gpu.global.u32 [%flag], 1;",
    ] {
        assert!(!handed_over(raise, "acquire", ""), "{raise}");
    }
    // Writes after the fence, or after the flag, are not released by them.
    let late =
        |code: &str| ordered(&[code.to_owned(), wait("acquire", "%flag", 1) + &wait("relaxed", "%turn", 1) + READ], 1);
    let turn = "st.relaxed.gpu.global.u32 [%turn], 1;";
    assert!(!late(&format!("st.release.gpu.global.u32 [%flag], 1; {WRITE}{turn}")));
    assert!(!late(&format!("membar.gl; {WRITE} st.relaxed.gpu.global.u32 [%flag], 1; {turn}")));
    assert!(late(&format!("{WRITE} membar.gl; st.relaxed.gpu.global.u32 [%flag], 1; {turn}")));
}

/// Block 0 writes and releases the flag at 1. Block 1 waits for its turn and applies `second` to
/// the flag without having read it. Block 2 then acquires the flag and reads.
fn overwritten(second: &str) -> bool {
    let turn = |number: u32| format!("st.relaxed.gpu.global.u32 [%turn], {number};");
    let first = format!("{WRITE} red.release.gpu.global.add.u32 [%flag], 1; {}", turn(1));
    let second = wait("relaxed", "%turn", 1) + second + &turn(2);
    let third = wait("relaxed", "%turn", 2) + "ld.acquire.gpu.global.u32 %x, [%flag];" + READ;
    ordered(&[first, second, third], 1)
}

#[test]
fn values_carry_what_was_released_with_them() {
    // Modifying a value passes on the clock that it carries; overwriting it does not.
    assert!(overwritten("red.relaxed.gpu.global.add.u32 [%flag], 1;"));
    assert!(overwritten("red.release.gpu.global.add.u32 [%flag], 1;"));
    assert!(!overwritten("st.relaxed.gpu.global.u32 [%flag], 2;"));
    assert!(!overwritten("st.release.gpu.global.u32 [%flag], 2;"));
    // Knowledge is passed on from block to block.
    let first = format!("{WRITE} st.release.gpu.global.u32 [%turn], 1;");
    let second = |load: &str| wait(load, "%turn", 1) + "st.release.gpu.global.u32 [%flag], 1;";
    let third = || wait("acquire", "%flag", 1) + READ;
    assert!(ordered(&[first.clone(), second("acquire"), third()], 1));
    assert!(!ordered(&[first, second("relaxed"), third()], 1));
}

#[test]
fn what_a_thread_knows_others_learn_by_meeting() {
    let raised = format!("@%q {WRITE} @%q st.release.gpu.global.u32 [%flag], 1;");
    // The first thread acquires, the last one reads.
    let read = |meet: &str, threads: u32| {
        let last = threads - 1;
        let code = format!(
            "@!%q bra $meet;\n{}$meet: {meet} setp.eq.u32 %p, %t, {last}; @%p {READ}",
            wait("acquire", "%flag", 1)
        );
        ordered(&[raised.clone(), code], threads)
    };
    assert!(read("bar.warp.sync -1;", 32));
    assert!(read("bar.sync 0;", 32));
    assert!(read("bar.sync 0;", 64));
    // A vote makes them wait, and orders nothing.
    assert!(!read("vote.sync.any.pred %p, %q, -1;", 32));
    // The last thread writes, the first one releases.
    let write = |meet: &str, threads: u32| {
        let last = threads - 1;
        let code = format!("setp.eq.u32 %p, %t, {last}; @%p {WRITE} {meet} @%q st.release.gpu.global.u32 [%flag], 1;");
        ordered(&[code, format!("@!%q exit; {}{READ}", wait("acquire", "%flag", 1))], threads)
    };
    assert!(write("bar.warp.sync -1;", 32));
    assert!(write("bar.sync 0;", 64));
    assert!(!write("vote.sync.any.pred %p, %q, -1;", 32));
}

#[test]
fn reads_are_before_the_writes_that_follow() {
    // Block 0 reads, block 1 writes.
    let after = |raise: &str, load: &str| ordered(&[format!("{READ} {raise}"), wait(load, "%flag", 1) + WRITE], 1);
    assert!(after("st.release.gpu.global.u32 [%flag], 1;", "acquire"));
    assert!(!after("st.relaxed.gpu.global.u32 [%flag], 1;", "acquire"));
    // Each of many readers counts: all blocks but the last read, and the last writes after them.
    let readers = |release: &str, strict: bool| {
        let reader = format!("{READ} red.{release}.gpu.global.add.u32 [%flag], 1;");
        let sloppy = format!("{READ} red.relaxed.gpu.global.add.u32 [%flag], 1;");
        let mut blocks = vec![reader; 5];
        if !strict {
            blocks[2] = sloppy;
        }
        blocks.push(wait("acquire", "%flag", 5) + WRITE);
        ordered(&blocks, 1)
    };
    assert!(readers("release", true));
    assert!(!readers("release", false));
}

#[test]
fn parts_of_what_was_read_together_are_apart() {
    // Two warps of block 0 read four words. One thread overwrites the third, which is allowed;
    // block 1 may not overwrite the first.
    let read = "ld.global.v4.u32 {%x, %y, %x, %y}, [%data]; bar.sync 0; @%q st.global.u32 [%data+8], 1;";
    let first = format!("{read} @%q st.relaxed.gpu.global.u32 [%turn], 1;");
    assert!(!ordered(&[first.clone(), format!("@!%q exit; {}{WRITE}", wait("relaxed", "%turn", 1))], 64));
    assert!(ordered(&[first], 64));
}
