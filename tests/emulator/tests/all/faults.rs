//! Each kind of fault, provoked by a small kernel: it is reported at its line and in its thread.

use emulator::{Fault, Launch, Memory, Module, Problem, Space, Thread};

use crate::common::{arguments, launch, line_of, module, put, run, words};

/// A kernel that has the thread's number in `%t` and `4 * %t` in `%o`, and its two parameters in
/// `%a` and `%b`.
fn kernel(code: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 a, .param .u64 b)
{{
.reg .u32 %t, %o, %x, %y, %r<8>;
.reg .u64 %a, %b, %at, %w;
.reg .pred %p, %q;
.shared .align 16 .b8 tile[1024];
mov.u32 %t, %tid.x;
shl.b32 %o, %t, 2;
ld.param.u64 %a, [a];
ld.param.u64 %b, [b];
cvt.u64.u32 %at, %o;
add.u64 %at, %at, %a;
{code}
ret;
}}
"
    )
}

/// The fault of a kernel, which must be on the line of `// here`.
fn fault(code: &str, shape: Launch, words_at_a: usize) -> Fault {
    let text = kernel(code);
    let mut memory = Memory::new();
    let a = put(&mut memory, &words(&vec![1; words_at_a]));
    let b = memory.allocate(256);
    let fault = run(&text, &mut memory, shape, &[a, b]).expect_err("the kernel is at fault");
    assert_eq!(fault.line, line_of(&text, "// here"), "{fault}");
    assert_eq!(fault.kernel, "k");
    fault
}

/// Asserts that a kernel has no fault in any order of turns.
fn passes(code: &str, shape: Launch, words_at_a: usize) {
    for seed in 0..6 {
        let mut memory = Memory::new();
        let a = put(&mut memory, &words(&vec![1; words_at_a]));
        let b = memory.allocate(256);
        let done = run(&kernel(code), &mut memory, Launch { seed, ..shape }, &[a, b]);
        assert!(done.is_ok(), "{}", done.unwrap_err());
    }
}

fn thread(x: u32) -> Thread {
    Thread { block: [0; 3], thread: [x, 0, 0] }
}

#[test]
fn accesses_outside() {
    let found = fault("ld.global.u32 %x, [%at]; // here", launch(1, 8, 0), 7);
    assert!(matches!(found.what, Problem::OutOfBounds { space: Space::Global, .. }), "{found}");
    assert_eq!(found.thread, thread(7));
    let found = fault("st.global.u32 [%at+-4], %x; // here".replace("%x", "%t").as_str(), launch(1, 8, 0), 8);
    assert!(matches!(found.what, Problem::OutOfBounds { .. }), "{found}");
    assert_eq!(found.thread, thread(0));
    // The last element starts inside.
    let found = fault("ld.global.v2.u32 {%x, %y}, [%a+8]; // here", launch(1, 1, 0), 3);
    assert!(matches!(found.what, Problem::OutOfBounds { .. }), "{found}");
    let found = fault("st.shared.u32 [tile+1024], %t; // here", launch(1, 1, 0), 1);
    assert_eq!(found.what, Problem::OutOfBounds { space: Space::Shared, address: 1024 });
    // Another variable does not lie behind the first.
    let found = fault(".shared .b32 next[4];\nst.shared.u32 [tile+1024], %t; // here", launch(1, 1, 0), 1);
    assert_eq!(found.what, Problem::OutOfBounds { space: Space::Shared, address: 1024 });
    let found = fault(".local .b32 own[4];\nst.local.u32 [own+16], %t; // here", launch(1, 1, 0), 1);
    assert_eq!(found.what, Problem::OutOfBounds { space: Space::Local, address: 16 });
}

#[test]
fn accesses_that_are_not_aligned() {
    let found = fault("ld.global.u32 %x, [%a+2]; // here", launch(1, 1, 0), 4);
    assert!(matches!(found.what, Problem::Misaligned { space: Space::Global, .. }), "{found}");
    let found = fault("st.shared.v2.u32 [tile+4], {%t, %t}; // here", launch(1, 1, 0), 4);
    assert_eq!(found.what, Problem::Misaligned { space: Space::Shared, address: 4 });
}

#[test]
fn reads_of_what_nobody_wrote() {
    let found = fault("ld.global.u32 %x, [%b]; // here", launch(1, 4, 0), 1);
    assert!(matches!(found.what, Problem::Uninitialised { space: Space::Global, .. }), "{found}");
    let found = fault("ld.shared.u32 %x, [tile+8]; // here", launch(1, 1, 0), 1);
    assert_eq!(found.what, Problem::Uninitialised { space: Space::Shared, address: 8 });
    // Of four bytes, two.
    let code = "cvt.u16.u32 %h, %t; st.shared.u16 [tile], %h; ld.shared.u32 %x, [tile]; // here";
    let found = fault(&format!(".reg .u16 %h;\n{code}"), launch(1, 1, 0), 1);
    assert_eq!(found.what, Problem::Uninitialised { space: Space::Shared, address: 2 });
    let found = fault(".local .b32 own[4];\nld.local.u32 %x, [own]; // here", launch(1, 1, 0), 1);
    assert_eq!(found.what, Problem::Uninitialised { space: Space::Local, address: 0 });
    let found = fault("atom.global.add.u32 %x, [%b], 1; // here", launch(1, 1, 0), 1);
    assert!(matches!(found.what, Problem::Uninitialised { .. }), "{found}");
}

#[test]
fn registers_before_they_are_written() {
    let found = fault("add.u32 %x, %y, 1; // here", launch(1, 4, 0), 1);
    assert_eq!((found.what, found.thread), (Problem::UndefinedRegister, thread(0)));
    // Written by lane 0 alone.
    let code = "setp.eq.u32 %p, %t, 0; @%p mov.u32 %y, 1; add.u32 %x, %y, 1; // here";
    let found = fault(code, launch(1, 4, 0), 1);
    assert_eq!((found.what, found.thread), (Problem::UndefinedRegister, thread(1)));
    let found = fault("@%p mov.u32 %x, 1; // here", launch(1, 1, 0), 1);
    assert_eq!(found.what, Problem::UndefinedRegister);
    let found = fault("addc.u32 %x, %t, 1; // here", launch(1, 1, 0), 1);
    assert_eq!(found.what, Problem::UndefinedRegister);
    // The operand that a selection does not choose is not read.
    passes("setp.eq.u32 %p, %t, %t; selp.u32 %x, %t, %y, %p;", launch(1, 4, 0), 1);
    passes("setp.ne.u32 %p, %t, %t; @%p add.u32 %x, %y, 1;", launch(1, 4, 0), 1);
}

#[test]
fn divisions_by_zero() {
    let found = fault("div.u32 %x, 7, %t; // here", launch(1, 4, 0), 1);
    assert_eq!((found.what, found.thread), (Problem::DivisionByZero, thread(0)));
    let found = fault("sub.u32 %y, %t, 3; rem.s32 %x, 7, %y; // here", launch(1, 4, 0), 1);
    assert_eq!((found.what, found.thread), (Problem::DivisionByZero, thread(3)));
    passes("setp.ne.u32 %p, %t, 0; @%p div.u32 %x, 7, %t;", launch(1, 4, 0), 1);
}

#[test]
fn traps() {
    let found = fault("setp.eq.u32 %p, %t, 37; @%p trap; // here", launch(1, 64, 0), 1);
    assert_eq!((found.what, found.thread), (Problem::Trap, thread(37)));
}

#[test]
fn races_within_a_block() {
    // Two warps each write a shared word and then read the other's.
    let code = |between: &str| {
        format!(
            "mov.u32 %x, tile; add.u32 %x, %x, %o; st.shared.u32 [%x], %t; {between}
            xor.b32 %y, %o, 128; mov.u32 %x, tile; add.u32 %x, %x, %y; ld.shared.u32 %r0, [%x]; // here"
        )
    };
    for seed in 0..4 {
        let shape = Launch { seed, ..launch(1, 64, 0) };
        let mut memory = Memory::new();
        let fault = run(&kernel(&code("")), &mut memory, shape, &[0, 0]).expect_err("nothing orders the accesses");
        let race = matches!(fault.what, Problem::Race { space: Space::Shared, .. } | Problem::Uninitialised { .. });
        assert!(race, "{fault}");
    }
    passes(&code("bar.sync 0;"), launch(1, 64, 0), 1);
    // The lanes of one warp are not synchronized for memory either.
    let own = |between: &str| code(between).replace("128", "4");
    let found = fault(&own(""), launch(1, 32, 0), 1);
    let line = line_of(&kernel(&own("")), "st.shared");
    assert_eq!(found.what, Problem::Race { space: Space::Shared, address: 4, other: thread(1), line });
    passes(&own("bar.warp.sync 0xffffffff;"), launch(1, 32, 0), 1);
    // A shuffle passes registers, and orders nothing else.
    let found = fault(&own("shfl.sync.idx.b32 %r1, %t, 0, 31, -1;"), launch(1, 32, 0), 1);
    assert!(matches!(found.what, Problem::Race { .. }), "{found}");
}

#[test]
fn races_of_writes() {
    let found = fault("st.shared.u32 [tile], %t; // here", launch(1, 2, 0), 1);
    let line = found.line;
    assert_eq!(found.what, Problem::Race { space: Space::Shared, address: 0, other: thread(0), line });
    // A write after reads, by one of the readers.
    let code = "setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [tile], %t; bar.sync 0; ld.shared.u32 %x, [tile];
        @%p st.shared.u32 [tile], %t; // here";
    let found = fault(code, launch(1, 2, 0), 1);
    assert!(matches!(found.what, Problem::Race { other, .. } if other == thread(1)), "{found}");
    passes(&code.replace("[tile];\n", "[tile]; bar.sync 0;\n"), launch(1, 64, 0), 1);
    passes(&code.replace("[tile];\n", "[tile]; bar.warp.sync -1;\n"), launch(1, 32, 0), 1);
    // Words after an access to four at once belong to their own threads.
    passes(
        "add.u32 %x, %o, 64; mov.u32 %y, tile; add.u32 %x, %x, %y; setp.eq.u32 %p, %t, 0;
        @%p st.shared.v4.u32 [tile], {%t, %t, %t, %t}; st.shared.u32 [%x], %t;",
        launch(1, 64, 0),
        1,
    );
    // Nor are bytes of one word.
    let bytes = ".reg .u16 %h;\ncvt.u16.u32 %h, %t; cvt.u64.u32 %w, %t; add.u64 %w, %b, %w; st.global.u8 [%w], %h;";
    passes(bytes, launch(1, 64, 0), 1);
    let found = fault(&format!("{bytes}\nst.global.u32 [%b], %t; // here"), launch(1, 2, 0), 1);
    let line = line_of(&kernel(bytes), "st.global.u8");
    assert!(matches!(found.what, Problem::Race { other, line: l, .. } if other == thread(1) && l == line), "{found}");
}

#[test]
fn meetings_of_some_lanes_are_theirs() {
    // Lanes 0 and 1 synchronize, then 1 and 2: lane 2 may read what 0 wrote before.
    let code = |second: &str| {
        format!(
            "setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [tile], %t;
            setp.lt.u32 %p, %t, 2; @%p bar.warp.sync 3;
            setp.gt.u32 %p, %t, 0; @%p bar.warp.sync {second};
            setp.eq.u32 %p, %t, 2; @%p ld.shared.u32 %x, [tile]; // here"
        )
    };
    passes(&code("6"), launch(1, 3, 0), 1);
    let found = fault(&code("6").replace("@%p bar.warp.sync 3;", ""), launch(1, 3, 0), 1);
    assert!(matches!(found.what, Problem::Race { .. }), "{found}");
    // Lanes 0 and 1 read, one after the other; lane 2 may write when it has synchronized with both.
    let code = |mask: &str| {
        format!(
            "setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [tile], %t; bar.sync 0;
            @%p ld.shared.u32 %x, [tile]; setp.eq.u32 %p, %t, 1; @%p ld.shared.u32 %x, [tile];
            shr.u32 %y, {mask}, %t; and.b32 %y, %y, 1; setp.eq.u32 %p, %y, 1; @%p bar.warp.sync {mask};
            setp.eq.u32 %p, %t, 2; @%p st.shared.u32 [tile], %t; // here"
        )
    };
    passes(&code("7"), launch(1, 3, 0), 1);
    for (mask, other) in [("6", 0), ("5", 1)] {
        let found = fault(&code(mask), launch(1, 3, 0), 1);
        assert!(matches!(found.what, Problem::Race { other: o, .. } if o == thread(other)), "{found}");
    }
}

#[test]
fn lanes_hand_over_by_flags() {
    // Lane 0 waits for lane 1, which is behind it in the text.
    let code = |release: &str, acquire: &str| {
        format!(
            "setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [tile], 0; bar.warp.sync -1;
            @!%p bra $raise; $spin: ld.{acquire}.cta.shared.u32 %x, [tile]; setp.eq.u32 %q, %x, 0; @%q bra $spin;
            ld.shared.u32 %x, [tile+4]; // here
            bra $end; $raise: setp.eq.u32 %q, %t, 1; @!%q bra $end;
            st.shared.u32 [tile+4], 5; st.{release}.cta.shared.u32 [tile], 1; $end:"
        )
    };
    passes(&code("release", "acquire"), launch(3, 32, 0), 1);
    for (release, acquire) in [("relaxed", "acquire"), ("release", "relaxed")] {
        let found = fault(&code(release, acquire), launch(1, 32, 0), 1);
        assert!(matches!(found.what, Problem::Race { other, .. } if other == thread(1)), "{found}");
    }
}

#[test]
fn races_between_blocks() {
    let found = fault("st.global.u32 [%b], %t; // here", launch(2, 1, 0), 1);
    assert!(matches!(found.what, Problem::Race { space: Space::Global, .. }), "{found}");
    passes("st.relaxed.gpu.global.u32 [%b], %t;", launch(9, 1, 0), 1);
    passes("st.volatile.global.u32 [%b], %t;", launch(9, 1, 0), 1);
    passes("red.global.add.u32 [%a], 1;", launch(9, 40, 0), 1);
    // An atomic operation with the scope of a block does not count for others, nor does a plain
    // read.
    let found = fault("red.cta.global.add.u32 [%a], 1; // here", launch(2, 1, 0), 1);
    assert!(matches!(found.what, Problem::Race { .. }), "{found}");
    let found = fault("ld.global.u32 %x, [%a]; red.global.add.u32 [%a], 1; // here", launch(2, 1, 0), 1);
    assert!(matches!(found.what, Problem::Race { .. }), "{found}");
}

#[test]
fn constants_stay_constant() {
    let found = fault("ld.global.nc.u32 %x, [%a]; st.global.u32 [%a], %x; // here", launch(1, 1, 0), 1);
    assert!(matches!(found.what, Problem::Race { .. }), "{found}");
    let found = fault("st.global.u32 [%a], %t; ld.global.nc.u32 %x, [%a]; // here", launch(1, 1, 0), 1);
    assert!(matches!(found.what, Problem::Race { .. }), "{found}");
    let code = "ld.global.nc.u32 %x, [%a]; ld.global.u32 %x, [%a]; st.global.u32 [%a], %x; // here";
    let found = fault(code, launch(1, 1, 0), 1);
    assert!(matches!(found.what, Problem::Race { .. }), "{found}");
}

#[test]
fn lanes_that_never_come() {
    let found = fault(
        "setp.lt.u32 %p, %t, 31; @%p shfl.sync.idx.b32 %x, %t, 0, 31, -1; // here\nbar.sync 0;",
        launch(1, 32, 0),
        1,
    );
    assert_eq!(found.what, Problem::NotConverged { mask: u32::MAX, came: u32::MAX >> 1 });
    let found = fault("setp.lt.u32 %p, %t, 9; @%p bar.warp.sync 0x100; // here", launch(1, 32, 0), 1);
    assert!(matches!(found.what, Problem::NotConverged { mask: 0x100, .. }), "{found}");
    // Those that have exited are not waited for.
    passes("setp.lt.u32 %p, %t, 9; @%p exit; shfl.sync.idx.b32 %x, %t, 10, 31, -1;", launch(1, 32, 0), 1);
    passes(
        "setp.lt.u32 %p, %t, 9; @!%p bra $on; bar.warp.sync 0x1ff; $on: bar.warp.sync 0xffffffff;",
        launch(1, 32, 0),
        1,
    );
    let late = "setp.lt.u32 %p, %t, 9; @%p bra $far; shfl.sync.idx.b32 %x, %t, 20, 31, -1; bra $end; $far: exit; $end:";
    passes(late, launch(1, 32, 0), 1);
    // A backward jump converges too.
    let back = "setp.lt.u32 %p, %t, 9; @!%p bra $far; $meet: shfl.sync.idx.b32 %x, %t, 20, 31, -1; bra $end;
        $far: bra $meet; $end:";
    passes(back, launch(1, 32, 0), 1);
    let found = fault("shfl.sync.idx.b32 %x, %t, 20, 31, -1; // here", launch(1, 20, 0), 1);
    assert_eq!(found.what, Problem::BadShuffle { from: 20 });
}

#[test]
fn barriers_that_part() {
    let found = fault(
        "setp.lt.u32 %p, %t, 7; @%p bra $low; bar.sync 0; bra $end;
        $low: bar.sync 0; // here
        $end:",
        launch(1, 32, 0),
        1,
    );
    assert_eq!(found.what, Problem::BarrierDivergence);
    passes("setp.lt.u32 %p, %t, 32; @%p bra $low; bar.sync 0; bra $end; $low: bar.sync 0; $end:", launch(1, 64, 0), 1);
    passes(
        "setp.lt.u32 %p, %t, 7; @%p bra $low; barrier.sync 0; bra $end; $low: barrier.sync 0; $end:",
        launch(1, 32, 0),
        1,
    );
    passes("setp.lt.u32 %p, %t, 7; @%p bra $end; bar.sync 0; $end:", launch(1, 64, 0), 1);
}

/// `%t` is the thread; a fault ends the kernel where the vote is not the expected one.
#[test]
fn barriers_with_a_condition() {
    let all = |least: u32, fails: &str| {
        format!(
            "setp.ge.u32 %p, %t, {least}; bar.red.and.pred %q, 0, %p;
            {fails} bra $end; mov.u32 %x, 0; div.u32 %x, %t, %x; trap;
            $end:"
        )
    };
    passes(&all(0, "@%q"), launch(1, 70, 0), 1);
    for least in [1, 32, 33, 69, 70] {
        passes(&all(least, "@!%q"), launch(1, 70, 0), 1);
    }
    let mixed = "setp.lt.u32 %p, %t, 32; @%p bra $low; bar.red.and.pred %q, 0, %p; bra $end;
        $low: bar.sync 0; // here
        $end:";
    assert_eq!(fault(mixed, launch(1, 64, 0), 1).what, Problem::MixedBarriers);
}

#[test]
fn deadlocks() {
    let found = fault(
        "setp.lt.u32 %p, %t, 32; @%p bra $low; bar.sync 1; bra $end; $low: bar.sync 0; // here
        $end:",
        launch(1, 64, 0),
        1,
    );
    assert_eq!(found.what, Problem::Deadlock);
    // A flag that is never raised; the others wait at a barrier.
    let code = "setp.lt.u32 %p, %t, 32; @%p bra $wait;
        $spin: ld.acquire.gpu.global.u32 %x, [%a]; setp.ne.u32 %q, %x, 2; @%q bra $spin; // here
        $wait: bar.sync 0;";
    let found = fault(code, launch(1, 33, 0), 1);
    assert_eq!((found.what, found.thread), (Problem::Deadlock, thread(32)));
}

#[test]
fn launches_that_cannot_be() {
    let text = kernel("").replace("u64 b)", "u64 b) .maxntid 64, 1, 1");
    let mut memory = Memory::new();
    let tried = |module: &Module, name: &str, shape: Launch, values: &[u64], memory: &mut Memory| {
        module.launch(memory, name, shape, &arguments(values)).map_err(|fault| fault.what)
    };
    let module = module(&text);
    assert_eq!(tried(&module, "j", launch(1, 1, 0), &[0, 0], &mut memory), Err(Problem::UnknownKernel));
    let arguments = Problem::Arguments { expected: 16, found: 8 };
    assert_eq!(tried(&module, "k", launch(1, 1, 0), &[0], &mut memory), Err(arguments));
    for shape in [
        Launch { block: [u32::MAX; 3], grid: [u32::MAX; 3], ..launch(1, 1, 0) },
        launch(1, 65, 0),
        launch(0, 1, 0),
        launch(1, 0, 0),
        launch(1, 2048, 0),
    ] {
        assert_eq!(tried(&module, "k", shape, &[0, 0], &mut memory), Err(Problem::Shape));
    }
    let large = Launch { shared: 1 << 20, ..launch(1, 1, 0) };
    assert_eq!(tried(&module, "k", large, &[0, 0], &mut memory), Err(Problem::Shape));
    assert!(tried(&module, "k", launch(1, 64, 0), &[0, 0], &mut memory).is_ok());
}

#[test]
fn hosts_see_what_was_written() {
    let mut memory = Memory::new();
    let address = memory.allocate(8);
    memory.write(address, &[1, 2, 3, 4]);
    assert_eq!(memory.read(address, 4), Ok(vec![1, 2, 3, 4]));
    let unwritten = Problem::Uninitialised { space: Space::Global, address: address + 4 };
    assert_eq!(memory.read(address + 2, 4), Err(unwritten));
    assert_eq!(memory.read_any(address, 8), [1, 2, 3, 4, 0, 0, 0, 0]);
    let outside = Problem::OutOfBounds { space: Space::Global, address: address + 4 };
    assert_eq!(memory.read(address + 4, 5), Err(outside));
    assert_eq!(memory.allocate(1) % 256, 0);
}
