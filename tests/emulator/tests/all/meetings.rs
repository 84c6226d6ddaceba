//! Barriers for a part of a block.

use emulator::{Fault, Memory, Problem};

use crate::common::{arguments, launch, module, put, read_words, words};

/// A block of three warps: the first writes four numbers for each thread, one after the other, to a
/// slot of its own in shared memory, and the second one adds them up. The third one does nothing.
/// `full` and `free` are the instructions by which they take turns.
fn program([written, read, taken, free]: [&str; 4]) -> String {
    format!(
        ".visible .entry k(.param .u64 from, .param .u64 to)
        {{
        .reg .pred %p, %q; .reg .b32 %t, %x, %sum, %k, %id; .reg .b64 %from, %to, %slot, %base;
        .shared .align 16 .b8 slots[128];
        mov.u32 %t, %tid.x; ld.param.u64 %from, [from]; ld.param.u64 %to, [to];
        mov.u64 %base, slots; mov.u32 %k, 0; mov.u32 %sum, 0; mov.u32 %id, 2;
        setp.ge.u32 %p, %t, 64; @%p bra END;
        setp.ge.u32 %p, %t, 32; @%p bra READER;
        mad.wide.u32 %slot, %t, 4, %base; mad.wide.u32 %from, %t, 16, %from;
        WRITER:
        {free}
        ld.global.b32 %x, [%from+0]; add.s64 %from, %from, 4; st.shared.b32 [%slot+0], %x;
        {written}
        add.u32 %k, %k, 1; setp.lt.u32 %q, %k, 4; @%q bra WRITER;
        bra END;
        READER:
        sub.u32 %t, 63, %t; mad.wide.u32 %slot, %t, 4, %base; mad.wide.u32 %to, %t, 4, %to;
        NEXT:
        {read}
        ld.shared.b32 %x, [%slot+0]; add.u32 %sum, %sum, %x;
        {taken}
        add.u32 %k, %k, 1; setp.lt.u32 %q, %k, 4; @%q bra NEXT;
        st.global.b32 [%to+0], %sum;
        END:
        ret;
        }}"
    )
}

const WRITTEN: &str = "bar.arrive 1, 64;";
const READ: &str = "bar.sync 1, 64;";
const TAKEN: &str = "setp.lt.u32 %q, %k, 3; @!%q bra LAST; bar.arrive %id, 64; LAST:";
const FREE: &str = "setp.gt.u32 %q, %k, 0; @!%q bra FIRST; bar.sync %id, 64; FIRST:";

fn run(lines: [&str; 4], seed: u64) -> Result<(), Fault> {
    let mut memory = Memory::new();
    let from = put(&mut memory, &words(&(0..128).collect::<Vec<u32>>()));
    let to = memory.allocate(128);
    module(&program(lines)).launch(&mut memory, "k", launch(1, 96, seed), &arguments(&[from, to]))?;
    let meant: Vec<u32> = (0..32).map(|thread| 16 * thread + 6).collect();
    assert_eq!(read_words(&memory, to, 32), meant);
    Ok(())
}

#[test]
fn parts_of_a_block_take_turns() {
    for seed in 0..20 {
        run([WRITTEN, READ, TAKEN, FREE], seed).unwrap_or_else(|fault| panic!("{fault}"));
        // Those that could go on may wait too.
        run(["bar.sync 1, 64;", READ, TAKEN, FREE], seed).unwrap_or_else(|fault| panic!("{fault}"));
    }
}

#[test]
fn both_turns_are_needed() {
    for seed in 0..20 {
        let fault = run([WRITTEN, READ, "", ""], seed).expect_err("the writer does not wait");
        assert!(matches!(fault.what, Problem::Race { .. } | Problem::Deadlock), "{fault}");
        let fault = run(["", "", TAKEN, FREE], seed).expect_err("the reader does not wait");
        assert!(matches!(fault.what, Problem::Race { .. } | Problem::Uninitialised { .. }), "{fault}");
    }
}

#[test]
fn all_arrive() {
    let fault = run(["", READ, TAKEN, FREE], 1).expect_err("nobody says that it has written");
    assert_eq!(fault.what, Problem::Deadlock);
    let fault = run(["bar.arrive 1, 96;", READ, TAKEN, FREE], 1).expect_err("of different numbers of threads");
    assert!(matches!(fault.what, Problem::MixedBarriers), "{fault}");
    let fault =
        run(["setp.ne.u32 %q, %t, 3; @%q bar.arrive 1, 64;", READ, TAKEN, FREE], 1).expect_err("one stays away");
    assert_eq!(fault.what, Problem::BarrierDivergence);
    let fault = run(["bar.arrive 1, 40;", READ, TAKEN, FREE], 1).expect_err("a part of a warp");
    assert_eq!(fault.what, Problem::MixedBarriers);
}
