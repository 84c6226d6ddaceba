//! Kernels as an emitter writes them: tails, reductions, communication between blocks. Correct ones
//! pass under every order of turns; an injected fault is found.

use emulator::{Fault, Launch, Memory, Module, Problem, Stats};

use crate::common::{Random, arguments, launch, module, put, read_words, words};

/// Adds vectors of `n` elements, four in each thread, with predicates for the tail.
const VECTOR_ADD: &str = "
.visible .entry add(.param .u64 n, .param .u64 a, .param .u64 b, .param .u64 c)
.maxntid 128, 1, 1
{
    .reg .pred %p<8>;
    .reg .b32 %r<8>;
    .reg .f32 %f<16>;
    .reg .b64 %rd<16>;
    ld.param.u64 %rd0, [n];
    ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [b]; cvta.to.global.u64 %rd2, %rd2;
    ld.param.u64 %rd3, [c]; cvta.to.global.u64 %rd3, %rd3;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r0, %r1, %r2;
    mul.wide.u32 %rd4, %r3, 4;
    shl.b64 %rd5, %rd4, 2;
    add.s64 %rd1, %rd1, %rd5; add.s64 %rd2, %rd2, %rd5; add.s64 %rd3, %rd3, %rd5;
    add.s64 %rd6, %rd4, 4;
    setp.gt.s64 %p0, %rd6, %rd0;
    @%p0 bra $tail;
    ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%f0, %f1, %f2, %f3}, [%rd1];
    ld.global.nc.v4.f32 {%f4, %f5, %f6, %f7}, [%rd2];
    add.rn.f32 %f0, %f0, %f4; add.rn.f32 %f1, %f1, %f5; add.rn.f32 %f2, %f2, %f6; add.rn.f32 %f3, %f3, %f7;
    st.global.cs.v4.f32 [%rd3], {%f0, %f1, %f2, %f3};
    bra.uni $end;
$tail:
    setp.lt.s64 %p1, %rd4, %rd0;
    add.s64 %rd7, %rd4, 1; setp.lt.s64 %p2, %rd7, %rd0;
    add.s64 %rd7, %rd4, 2; setp.lt.s64 %p3, %rd7, %rd0;
    @%p1 ld.global.f32 %f0, [%rd1]; @%p1 ld.global.f32 %f4, [%rd2];
    @%p2 ld.global.f32 %f1, [%rd1+4]; @%p2 ld.global.f32 %f5, [%rd2+4];
    @%p3 ld.global.f32 %f2, [%rd1+8]; @%p3 ld.global.f32 %f6, [%rd2+8];
    @%p1 add.rn.f32 %f0, %f0, %f4; @%p1 st.global.f32 [%rd3], %f0;
    @%p2 add.rn.f32 %f1, %f1, %f5; @%p2 st.global.f32 [%rd3+4], %f1;
    @%p3 add.rn.f32 %f2, %f2, %f6; @%p3 st.global.f32 [%rd3+8], %f2;
$end:
    ret;
}
";

/// All kernels of this file.
pub fn programs() -> [&'static str; 7] {
    [VECTOR_ADD, BLOCK_SUM, LAST_BLOCK, LOOK_BACK, TRANSPOSE, WARP, VARIABLES]
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn read_floats(memory: &Memory, address: u64, count: usize) -> Vec<f32> {
    read_words(memory, address, count).into_iter().map(f32::from_bits).collect()
}

#[test]
fn vectors_with_tails() {
    let module = module(VECTOR_ADD);
    for n in [0, 1, 2, 3, 4, 5, 127, 128, 511, 512, 513, 2050] {
        for seed in [0, 9] {
            let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
            let b: Vec<f32> = (0..n).map(|i| 1.0 / (i + 1) as f32).collect();
            let mut memory = Memory::new();
            let (a_at, b_at) = (put(&mut memory, &floats(&a)), put(&mut memory, &floats(&b)));
            let c_at = memory.allocate(4 * n);
            let values = arguments(&[n as u64, a_at, b_at, c_at]);
            let grid = n.div_ceil(512).max(1) as u32;
            let stats = module.launch(&mut memory, "add", launch(grid, 128, seed), &values);
            let stats = stats.unwrap_or_else(|fault| panic!("{fault}"));
            let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            assert_eq!(read_floats(&memory, c_at, n), sums);
            assert_eq!((stats.loaded, stats.stored), (8 * n as u64, 4 * n as u64), "each element once");
        }
    }
}

/// Sums 256 elements: within warps by shuffles, across them through shared memory.
const BLOCK_SUM: &str = "
.visible .entry sum(.param .u64 in, .param .u64 out)
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<8>;
    .shared .align 4 .f32 part[8];
    ld.param.u64 %rd0, [in];
    ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, 4;
    add.u64 %rd0, %rd0, %rd2;
    ld.global.f32 %f0, [%rd0];
    mov.u32 %r9, 16;
$within:
    mov.b32 %r1, %f0;
    shfl.sync.bfly.b32 %r2, %r1, %r9, 31, 0xffffffff;
    mov.b32 %f1, %r2;
    add.rn.f32 %f0, %f0, %f1;
    shr.u32 %r9, %r9, 1;
    setp.ne.u32 %p0, %r9, 0;
    @%p0 bra $within;
    and.b32 %r3, %r0, 31;
    setp.eq.u32 %p1, %r3, 0;
    shr.u32 %r4, %r0, 5;
    shl.b32 %r4, %r4, 2;
    mov.u32 %r5, part;
    add.u32 %r5, %r5, %r4;
    @%p1 st.shared.f32 [%r5], %f0;
    bar.sync 0;
    setp.ge.u32 %p2, %r0, 32;
    @%p2 exit;
    setp.lt.u32 %p3, %r0, 8;
    shl.b32 %r4, %r0, 2;
    mov.u32 %r5, part;
    add.u32 %r5, %r5, %r4;
    mov.f32 %f0, 0f00000000;
    @%p3 ld.shared.f32 %f0, [%r5];
    mov.b32 %r1, %f0; shfl.sync.down.b32 %r2, %r1, 4, 31, -1; mov.b32 %f1, %r2; add.rn.f32 %f0, %f0, %f1;
    mov.b32 %r1, %f0; shfl.sync.down.b32 %r2, %r1, 2, 31, -1; mov.b32 %f1, %r2; add.rn.f32 %f0, %f0, %f1;
    mov.b32 %r1, %f0; shfl.sync.down.b32 %r2, %r1, 1, 31, -1; mov.b32 %f1, %r2; add.rn.f32 %f0, %f0, %f1;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 st.global.f32 [%rd1], %f0;
    ret;
}
";

fn block_sum(text: &str, seed: u64) -> Result<(f32, Stats), Fault> {
    let mut memory = Memory::new();
    let values: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let (input, out) = (put(&mut memory, &floats(&values)), memory.allocate(4));
    let stats = module(text).launch(&mut memory, "sum", launch(1, 256, seed), &arguments(&[input, out]))?;
    Ok((read_floats(&memory, out, 1)[0], stats))
}

#[test]
fn blocks_sum() {
    for seed in 0..8 {
        let (sum, stats) = block_sum(BLOCK_SUM, seed).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((sum, stats.barriers), (32640.0, 1));
    }
}

#[test]
fn a_missing_barrier_is_found() {
    for seed in 0..8 {
        let fault = block_sum(&BLOCK_SUM.replace("    bar.sync 0;\n", ""), seed).expect_err("the barrier is missing");
        // A thread that is too early finds uninitialized memory, one that is late a race.
        let expected = matches!(fault.what, Problem::Race { .. } | Problem::Uninitialised { .. });
        assert!(expected, "{fault}");
    }
    assert!(matches!(
        block_sum(&BLOCK_SUM.replace("    bar.sync 0;\n", ""), 0),
        Err(Fault { what: Problem::Uninitialised { .. } | Problem::Race { .. }, .. })
    ));
}

/// Each block stores a part; the last one to finish adds them.
const LAST_BLOCK: &str = "
.visible .entry last(.param .u64 parts, .param .u64 counter, .param .u64 out)
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 4 .b32 is_last;
    ld.param.u64 %rd0, [parts];
    ld.param.u64 %rd1, [counter];
    ld.param.u64 %rd2, [out];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %nctaid.x;
    mad.lo.u32 %r4, %r1, %r2, %r0;
    mul.wide.u32 %rd3, %r4, 4; add.u64 %rd3, %rd0, %rd3;
    st.global.u32 [%rd3], %r4;
    bar.sync 0; // parts
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra $wait;
    membar.gl; // release
    atom.global.inc.u32 %r5, [%rd1], 1000000; // count
    membar.gl; // acquire
    add.u32 %r6, %r3, -1;
    setp.eq.u32 %p1, %r5, %r6;
    selp.u32 %r7, 1, 0, %p1;
    st.shared.u32 [is_last], %r7;
$wait:
    bar.sync 0; // known
    ld.shared.u32 %r7, [is_last];
    setp.eq.u32 %p2, %r7, 0;
    @%p2 ret;
    @%p0 ret;
    mul.lo.u32 %r8, %r2, %r3;
    mov.u32 %r9, 0;
$each:
    ld.global.u32 %r10, [%rd0];
    add.u32 %r9, %r9, %r10;
    add.u64 %rd0, %rd0, 4;
    add.u32 %r8, %r8, -1;
    setp.ne.u32 %p3, %r8, 0;
    @%p3 bra $each;
    st.global.u32 [%rd2], %r9;
    st.global.u32 [%rd1], 0;
    ret;
}
";

fn last_block(text: &str, blocks: u32, seed: u64) -> Result<u32, Fault> {
    let mut memory = Memory::new();
    let parts = memory.allocate(4 * 64 * blocks as usize);
    let counter = put(&mut memory, &words(&[0]));
    let out = memory.allocate(4);
    module(text).launch(&mut memory, "last", launch(blocks, 64, seed), &arguments(&[parts, counter, out]))?;
    assert_eq!(read_words(&memory, counter, 1), [0], "the counter is ready for the next launch");
    Ok(read_words(&memory, out, 1)[0])
}

#[test]
fn the_last_block_adds() {
    let ordered = LAST_BLOCK.replace("    membar.gl; // release\n", "").replace("    membar.gl; // acquire\n", "");
    let ordered = ordered.replace("atom.global.inc", "atom.acq_rel.gpu.global.inc");
    let fences = LAST_BLOCK.replace("membar.gl", "fence.acq_rel.gpu");
    for text in [LAST_BLOCK, &fences, &ordered] {
        for (blocks, seed) in [(1, 0), (2, 0), (20, 0), (20, 1), (20, 2), (20, 3)] {
            let sum = last_block(text, blocks, seed).unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(sum, (0..64 * blocks).sum());
        }
    }
}

#[test]
fn fences_that_are_missing_are_found() {
    for missing in ["    membar.gl; // release\n", "    membar.gl; // acquire\n", "    bar.sync 0; // parts\n"] {
        for seed in 0..4 {
            let fault = last_block(&LAST_BLOCK.replace(missing, ""), 3, seed).expect_err(missing);
            assert!(matches!(fault.what, Problem::Race { .. }), "{missing}: {fault}");
        }
    }
    // Without the barrier after it, the others lack the knowledge of the first thread.
    let alone = LAST_BLOCK.replace("    bar.sync 0; // known\n", "");
    assert!(last_block(&alone, 3, 0).is_err());
    // A fence for the block does not order accesses for the device.
    let near = last_block(&LAST_BLOCK.replace("membar.gl", "membar.cta"), 3, 0).expect_err("the fences reach too near");
    assert!(matches!(near.what, Problem::Race { .. }), "{near}");
}

/// A prefix sum with one element per block, by looking back: a block takes a ticket, waits for the
/// sum of the previous one, and publishes its own.
const LOOK_BACK: &str = "
.visible .entry scan(.param .u64 in, .param .u64 sums, .param .u64 flags, .param .u64 ticket, .param .u64 out)
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [sums]; ld.param.u64 %rd2, [flags]; ld.param.u64 %rd3, [ticket];
    ld.param.u64 %rd4, [out];
    atom.global.add.u32 %r0, [%rd3], 1;
    mul.wide.u32 %rd5, %r0, 4;
    add.u64 %rd0, %rd0, %rd5; add.u64 %rd1, %rd1, %rd5; add.u64 %rd2, %rd2, %rd5; add.u64 %rd4, %rd4, %rd5;
    ld.global.u32 %r1, [%rd0];
    mov.u32 %r2, 0;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 bra $publish;
$spin:
    ld.acquire.gpu.global.u32 %r3, [%rd2+-4]; // look
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra $spin;
    ld.global.u32 %r2, [%rd1+-4];
$publish:
    add.u32 %r2, %r2, %r1;
    st.global.u32 [%rd1], %r2;
    st.global.u32 [%rd4], %r2;
    st.release.gpu.global.u32 [%rd2], 1; // raise
    ret;
}
";

fn relay(text: &str, blocks: usize, seed: u64) -> Result<Vec<u32>, Fault> {
    let mut memory = Memory::new();
    let input = put(&mut memory, &words(&(1..=blocks as u32).collect::<Vec<_>>()));
    let sums = memory.allocate(4 * blocks);
    let flags = put(&mut memory, &words(&vec![0; blocks]));
    let ticket = put(&mut memory, &words(&[0]));
    let out = memory.allocate(4 * blocks);
    let values = arguments(&[input, sums, flags, ticket, out]);
    module(text).launch(&mut memory, "scan", launch(blocks as u32, 1, seed), &values)?;
    Ok(read_words(&memory, out, blocks))
}

#[test]
fn blocks_relay() {
    let expected: Vec<u32> = (1..=50).map(|n| n * (n + 1) / 2).collect();
    let fenced = LOOK_BACK
        .replace("ld.acquire.gpu.global.u32 %r3, [%rd2+-4]; // look", "ld.relaxed.gpu.global.u32 %r3, [%rd2+-4];")
        .replace("    ld.global.u32 %r2, [%rd1+-4];", "    fence.acq_rel.gpu; ld.global.u32 %r2, [%rd1+-4];")
        .replace(
            "st.release.gpu.global.u32 [%rd2], 1; // raise",
            "fence.acq_rel.gpu; st.volatile.global.u32 [%rd2], 1;",
        );
    for text in [LOOK_BACK, &fenced] {
        for seed in 0..6 {
            let sums = relay(text, 50, seed).unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(sums, expected);
        }
    }
    for (strong, weak) in [
        ("st.release.gpu", "st.relaxed.gpu"),
        ("ld.acquire.gpu", "ld.relaxed.gpu"),
        ("st.release.gpu", "st.release.cta"),
    ] {
        for seed in 0..4 {
            let fault = relay(&LOOK_BACK.replace(strong, weak), 20, seed).expect_err(weak);
            assert!(matches!(fault.what, Problem::Race { .. }), "{fault}");
        }
    }
    // By number instead of by ticket, a block may wait for one that is not yet resident.
    let numbered = LOOK_BACK.replace("atom.global.add.u32 %r0, [%rd3], 1;", "mov.u32 %r0, %ctaid.x;");
    assert!(relay(&numbered, 50, 0).is_ok());
    let fault = relay(&numbered, 50, 1).expect_err("the order of blocks is not theirs to choose");
    assert_eq!(fault.what, Problem::Deadlock);
}

/// Transposes a tile through padded shared memory of a size that the launch determines.
const TRANSPOSE: &str = "
.extern .shared .align 16 .b8 tile[];
.visible .entry transpose(.param .u64 in, .param .u64 out)
{
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .reg .f32 %f<2>;
    ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y;
    mad.lo.u32 %r2, %r1, 16, %r0;
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd0, %rd0, %rd2; add.u64 %rd1, %rd1, %rd2;
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %r1, 68, %r3; shl.b32 %r5, %r0, 2; add.u32 %r4, %r4, %r5;
    ld.global.f32 %f0, [%rd0];
    st.shared.f32 [%r4], %f0;
    bar.sync 0;
    mad.lo.u32 %r4, %r0, 68, %r3; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5;
    ld.shared.f32 %f1, [%r4];
    st.global.f32 [%rd1], %f1;
    ret;
}
";

#[test]
fn tiles_transpose() {
    let module = module(TRANSPOSE);
    let values: Vec<u32> = (0..256).collect();
    for (shared, fits) in [(16 * 68, true), (15 * 68 + 60, false)] {
        let mut memory = Memory::new();
        let (input, out) = (put(&mut memory, &words(&values)), memory.allocate(1024));
        let shape = Launch { grid: [1; 3], block: [16, 16, 1], shared, seed: 5 };
        let done = module.launch(&mut memory, "transpose", shape, &arguments(&[input, out]));
        assert_eq!(done.is_ok(), fits, "{done:?}");
        if fits {
            let turned: Vec<u32> = (0..256).map(|i| i % 16 * 16 + i / 16).collect();
            assert_eq!(read_words(&memory, out, 256), turned);
        }
    }
}

/// Lanes with equal values find each other, in words of both lengths.
#[test]
fn equal_lanes_match() {
    const MATCH: &str = "
.visible .entry match(.param .u64 in, .param .u64 out)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, 4; add.u64 %rd0, %rd0, %rd2;
    mul.wide.u32 %rd2, %r0, 8; add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r1, [%rd0];
    match.any.sync.b32 %r2, %r1, -1; st.global.u32 [%rd1], %r2;
    cvt.u64.u32 %rd3, %r1; shl.b64 %rd3, %rd3, 32;
    match.any.sync.b64 %r2, %rd3, 0xffffffff; st.global.u32 [%rd1+4], %r2;
    ret;
}
";
    let mut random = Random(5);
    let values: Vec<u32> = (0..32).map(|_| random.next() as u32 % 5).collect();
    let mut memory = Memory::new();
    let (input, out) = (put(&mut memory, &words(&values)), memory.allocate(32 * 8));
    let done = module(MATCH).launch(&mut memory, "match", launch(1, 32, 2), &arguments(&[input, out]));
    done.unwrap_or_else(|fault| panic!("{fault}"));
    let alike = |lane: usize| (0..32).map(|other| u32::from(values[other] == values[lane]) << other).sum();
    let expected: Vec<u32> = (0..32).flat_map(|lane| [alike(lane); 2]).collect();
    assert_eq!(read_words(&memory, out, 64), expected);
}

/// Each thread runs a vote of every kind.
const WARP: &str = "
.visible .entry warp(.param .u64 in, .param .u64 out)
{
    .reg .pred %p, %q, %v;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, 4; add.u64 %rd0, %rd0, %rd2;
    mul.wide.u32 %rd2, %r0, 64; add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r1, [%rd0];
    setp.gt.s32 %p, %r1, 0;
    vote.sync.ballot.b32 %r2, %p, -1; st.global.u32 [%rd1], %r2;
    vote.sync.any.pred %q, %p, -1; selp.u32 %r2, 1, 0, %q;
    vote.sync.all.pred %q, !%p, -1; selp.u32 %r3, 2, 0, %q; or.b32 %r2, %r2, %r3;
    vote.sync.uni.pred %q, %p, -1; selp.u32 %r3, 4, 0, %q; or.b32 %r2, %r2, %r3; st.global.u32 [%rd1+4], %r2;
    redux.sync.add.s32 %r2, %r1, -1; st.global.u32 [%rd1+8], %r2;
    redux.sync.min.s32 %r2, %r1, -1; st.global.u32 [%rd1+12], %r2;
    redux.sync.max.u32 %r2, %r1, -1; st.global.u32 [%rd1+16], %r2;
    redux.sync.xor.b32 %r2, %r1, -1; st.global.u32 [%rd1+20], %r2;
    shfl.sync.up.b32 %r2|%v, %r1, 3, 0, -1; st.global.u32 [%rd1+24], %r2; selp.u32 %r3, 1, 0, %v;
    shfl.sync.down.b32 %r2|%v, %r1, 5, 31, -1; st.global.u32 [%rd1+28], %r2; selp.u32 %r4, 2, 0, %v;
    shfl.sync.bfly.b32 %r2, %r1, 9, 31, -1; st.global.u32 [%rd1+32], %r2;
    shfl.sync.idx.b32 %r2|%v, %r1, %r0, 0x181f, -1; st.global.u32 [%rd1+36], %r2; selp.u32 %r5, 4, 0, %v;
    or.b32 %r3, %r3, %r4; or.b32 %r3, %r3, %r5; st.global.u32 [%rd1+40], %r3;
    mov.u32 %r2, %lanemask_lt; mov.u32 %r3, %lanemask_ge; add.u32 %r2, %r2, %r3; st.global.u32 [%rd1+44], %r2;
    mov.u32 %r2, %lanemask_le; mov.u32 %r3, %lanemask_eq; xor.b32 %r2, %r2, %r3; st.global.u32 [%rd1+48], %r2;
    mov.u32 %r2, %laneid; mov.u32 %r3, %warpid; mad.lo.u32 %r2, %r3, 32, %r2; st.global.u32 [%rd1+52], %r2;
    activemask.b32 %r2; @%p activemask.b32 %r2; st.global.u32 [%rd1+56], %r2;
    mov.u32 %r2, %lanemask_gt; st.global.u32 [%rd1+60], %r2;
    ret;
}
";

#[test]
fn warps_answer() {
    let mut random = Random(3);
    let values: Vec<u32> = (0..64).map(|_| random.next() as u32).collect();
    let mut memory = Memory::new();
    let (input, out) = (put(&mut memory, &words(&values)), memory.allocate(64 * 64));
    let done = module(WARP).launch(&mut memory, "warp", launch(1, 64, 2), &arguments(&[input, out]));
    done.unwrap_or_else(|fault| panic!("{fault}"));
    let found = read_words(&memory, out, 64 * 16);
    for (thread, found) in found.chunks_exact(16).enumerate() {
        let (lane, warp) = (thread % 32, &values[thread / 32 * 32..][..32]);
        let positive = |lane: usize| warp[lane] as i32 > 0;
        let ballot = (0..32).map(|lane| u32::from(positive(lane)) << lane).sum();
        let up = if lane >= 3 { (lane - 3, 1) } else { (lane, 0) };
        let down = if lane + 5 < 32 { (lane + 5, 2) } else { (lane, 0) };
        // Segments of eight lanes.
        let index = lane & 0x18 | thread & 7;
        let expected = [
            ballot,
            1,
            warp.iter().fold(0, |a, b| a.wrapping_add(*b)),
            warp.iter().map(|v| *v as i32).min().unwrap() as u32,
            *warp.iter().max().unwrap(),
            warp.iter().fold(0, |a, b| a ^ b),
            warp[up.0],
            warp[down.0],
            warp[lane ^ 9],
            warp[index],
            up.1 | down.1 | 4,
            u32::MAX,
            (1 << lane) - 1,
            thread as u32,
            if positive(lane) { ballot } else { u32::MAX },
            u32::MAX << 1 << lane,
        ];
        assert_eq!(found, expected, "thread {thread}");
    }
}

/// Variables of the module and of the thread, and every atomic operation.
const VARIABLES: &str = "
.global .align 8 .b64 large[2] = {0x1122334455667788, -1};
.global .u32 zeros[4];
.const .align 4 .f32 table[4] = {0f3F800000, 2.0, 0.5, -1.0};
.visible .entry variables(.param .align 8 .b8 bytes[16], .param .s32 small, .param .u64 out)
{
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .reg .s64 %s;
    .reg .f32 %f<4>;
    .local .align 8 .b8 own[16];
    .shared .align 4 .b32 cell;
    ld.param.u64 %rd0, [out];
    ld.param.u32 %r0, [bytes+4]; st.global.u32 [%rd0], %r0;
    ld.param.s32 %r1, [small]; st.local.u32 [own+8], %r1;
    mov.u64 %rd1, own; ld.local.s32 %s, [%rd1+8]; shr.s64 %s, %s, 32; st.global.u32 [%rd0+4], %s;
    mov.u64 %rd1, large; ld.global.v2.u32 {%r0, %r1}, [%rd1]; st.global.u32 [%rd0+8], %r1;
    ld.global.u32 %r0, [zeros+12]; st.global.u32 [%rd0+12], %r0;
    mov.u64 %rd2, table; ld.const.f32 %f0, [%rd2+4]; ld.const.f32 %f1, [table+12];
    fma.rn.f32 %f0, %f0, %f0, %f1; st.global.f32 [%rd0+16], %f0;
    cvta.const.u64 %rd2, table; ld.f32 %f0, [%rd2+8]; st.f32 [%rd0+20], %f0;
    cvta.shared.u64 %rd3, cell; st.u32 [%rd3], 5; ld.shared.u32 %r0, [cell]; st.global.u32 [%rd0+24], %r0;
    cvta.to.shared.u64 %rd3, %rd3; red.shared.add.u32 [%rd3], 3;
    atom.shared.min.s32 %r0, [cell], -2; atom.shared.max.u32 %r1, [cell], 7; add.u32 %r0, %r0, %r1;
    st.global.u32 [%rd0+28], %r0;
    atom.shared.exch.b32 %r0, [cell], 0xf0f0; atom.shared.and.b32 %r0, [cell], 0xff00; atom.shared.or.b32 %r0, [cell], 1;
    atom.shared.xor.b32 %r0, [cell], 3; ld.shared.u32 %r0, [cell]; st.global.u32 [%rd0+32], %r0;
    atom.shared.cas.b32 %r0, [cell], 0xf002, 10; atom.shared.cas.b32 %r0, [cell], 9, 11;
    atom.shared.inc.u32 %r1, [cell], 10; atom.shared.inc.u32 %r2, [cell], 10; atom.shared.dec.u32 %r3, [cell], 20;
    mad.lo.u32 %r0, %r0, 100, %r1; mad.lo.u32 %r0, %r0, 100, %r2; mad.lo.u32 %r0, %r0, 100, %r3;
    st.global.u32 [%rd0+36], %r0;
    st.global.f32 [%rd0+40], 0f3FC00000; atom.global.add.f32 %f0, [%rd0+40], 0f40000000;
    st.global.u32 [%rd0+44], 0; atom.global.add.s32 %r0, [%rd0+44], -3;
    ret;
}
";

#[test]
fn variables_lie_where_they_should() {
    let mut memory = Memory::new();
    let out = memory.allocate(48);
    let mut values = vec![1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
    values.extend((-7i32).to_le_bytes());
    values.extend([0; 4]);
    values.extend(out.to_le_bytes());
    let done = module(VARIABLES).launch(&mut memory, "variables", Launch::default(), &values);
    done.unwrap_or_else(|fault| panic!("{fault}"));
    let found = read_words(&memory, out, 12);
    // The old values found by compare-and-swap, two increments and a decrement.
    let last = ((10 * 100 + 10) * 100) * 100 + 1;
    let expected = [
        2,
        u32::MAX,
        0x1122_3344,
        0,
        3f32.to_bits(),
        0.5f32.to_bits(),
        5,
        8u32.wrapping_sub(2),
        0xf002,
        last,
        3.5f32.to_bits(),
        -3i32 as u32,
    ];
    assert_eq!(found, expected);
}

#[test]
fn modules_name_their_kernels() {
    let module: Module = module(&format!("{VECTOR_ADD}{BLOCK_SUM}"));
    assert_eq!(module.kernels().collect::<Vec<_>>(), ["add", "sum"]);
}
