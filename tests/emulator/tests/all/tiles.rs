//! Products of tiles in shared memory by a group of four warps.

use emulator::{Fault, Memory, Module, Problem};
use half::bf16;

use crate::common::{arguments, launch, line_of, put, read_words};

/// The bytes of the left tile, and of both.
const LEFT: usize = 8192;
const BOTH: usize = LEFT + 2048;
const COLUMNS: usize = 16;

/// The lines of the program that order its accesses, and that do more.
#[derive(Clone, Copy)]
struct Lines {
    fence: &'static str,
    barrier: &'static str,
    order: &'static str,
    commit: &'static str,
    between: &'static str,
    wait: &'static str,
}

const RIGHT: Lines = Lines {
    fence: "fence.proxy.async.shared::cta;",
    barrier: "bar.sync 0;",
    order: "wgmma.fence.sync.aligned;",
    commit: "wgmma.commit_group.sync.aligned;",
    between: "",
    wait: "wgmma.wait_group.sync.aligned 0;",
};

/// Threads copy both tiles to shared memory, multiply them, add 1 and store their sums.
fn program(lines: Lines, wide: [bool; 2]) -> String {
    let Lines { fence, barrier, order, commit, between, wait } = lines;
    let copies: String = (0..BOTH / 2048)
        .map(|k| {
            let at = 2048 * k;
            format!("ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%from+{at}]; st.shared.v4.b32 [%a+{at}], {{%r0, %r1, %r2, %r3}};\n")
        })
        .collect();
    let sums: Vec<String> = (0..COLUMNS / 2).map(|k| format!("%s{k}")).collect();
    let ones: String = sums.iter().map(|sum| format!("mov.b32 {sum}, 0f3F800000; ")).collect();
    let stores: String =
        sums.iter().enumerate().map(|(k, sum)| format!("st.global.b32 [%to+{}], {sum}; ", 4 * k)).collect();
    let (sums, wide) = (sums.join(", "), wide.map(u8::from));
    format!(
        ".visible .entry k(.param .u64 from, .param .u64 to)
        {{
        .reg .pred %p; .reg .b32 %t, %s<8>, %r<4>; .reg .b64 %from, %to, %base, %a, %b;
        .shared .align 1024 .b8 tiles[{BOTH}];
        mov.u32 %t, %tid.x; ld.param.u64 %from, [from]; ld.param.u64 %to, [to];
        mad.wide.u32 %from, %t, 16, %from; mad.wide.u32 %to, %t, 32, %to;
        mov.u64 %base, tiles; mad.wide.u32 %a, %t, 16, %base;
        {copies} {fence}
        {barrier}
        shr.u64 %a, %base, 4; or.b64 %a, %a, 4611686293338849280; add.u64 %b, %a, 512;
        {ones} setp.eq.u32 %p, %t, %t;
        {order}
        wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {{{sums}}}, %a, %b, %p, 1, 1, {}, {};
        {commit}
        {between}
        {wait}
        {stores} ret;
        }}",
        wide[0], wide[1]
    )
}

/// The bytes of tiles with these elements by outer and inner index.
fn tiles(wide: [bool; 2], of: [&dyn Fn(usize, usize) -> f32; 2]) -> Vec<u8> {
    let mut bytes = vec![0; BOTH];
    for (side, (wide, of)) in wide.into_iter().zip(of).enumerate() {
        for (outer, inner) in (0..[64, COLUMNS][side]).flat_map(|outer| (0..16).map(move |inner| (outer, inner))) {
            let (row, column) = if wide { (inner, outer) } else { (outer, inner) };
            let at = LEFT * side + 128 * row + ((2 * column) ^ (16 * (row % 8)));
            bytes[at..at + 2].copy_from_slice(&bf16::from_f32(of(outer, inner)).to_le_bytes());
        }
    }
    bytes
}

fn run(text: &str, wide: [bool; 2], threads: u32) -> Result<Vec<f32>, Fault> {
    let mut memory = Memory::new();
    let left = |row: usize, k: usize| ((row * 5 + k * 3 + row * k) % 7) as f32 - 3.0;
    let right = |column: usize, k: usize| ((column * 3 + k + 2 * column * k) % 5) as f32 - 1.0;
    let from = put(&mut memory, &tiles(wide, [&left, &right]));
    let to = memory.allocate(32 * 128);
    let text = format!(".version 8.0\n.target sm_90a\n.address_size 64\n{text}");
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.launch(&mut memory, "k", launch(1, threads, 1), &arguments(&[from, to]))?;
    let found: Vec<f32> = read_words(&memory, to, 8 * 128).into_iter().map(f32::from_bits).collect();
    for (number, found) in found.iter().enumerate() {
        let (thread, k) = (number / 8, number % 8);
        let row = thread / 32 * 16 + thread % 32 / 4 + k / 2 % 2 * 8;
        let column = k / 4 * 8 + thread % 4 * 2 + k % 2;
        let meant = (0..16).fold(1.0, |sum, k| sum + left(row, k) * right(column, k));
        assert_eq!(*found, meant, "{wide:?}: {row} {column}");
    }
    Ok(found)
}

#[test]
fn products() {
    for wide in [[false, false], [false, true], [true, false], [true, true]] {
        run(&program(RIGHT, wide), wide, 128).unwrap_or_else(|fault| panic!("{fault}"));
    }
}

#[test]
fn what_orders_is_needed() {
    let fault = |lines: Lines| run(&program(lines, [false; 2]), [false; 2], 128).expect_err("an order is missing");
    assert!(matches!(fault(Lines { fence: "", ..RIGHT }).what, Problem::TileNotFenced { .. }));
    // A fence of the reader is not one of the writer.
    let late = Lines { fence: "", order: "fence.proxy.async; wgmma.fence.sync.aligned;", ..RIGHT };
    assert!(matches!(fault(late).what, Problem::TileNotFenced { .. }));
    assert!(matches!(fault(Lines { barrier: "", ..RIGHT }).what, Problem::Race { .. } | Problem::Uninitialised { .. }));
    assert_eq!(fault(Lines { order: "", ..RIGHT }).what, Problem::ProductsNotFenced);
    for lines in [Lines { wait: "", ..RIGHT }, Lines { commit: "", ..RIGHT }] {
        assert_eq!(fault(lines).what, Problem::UndefinedRegister);
    }
    let within = Lines { wait: "wgmma.wait_group.sync.aligned 1;", ..RIGHT };
    assert_eq!(fault(within).what, Problem::UndefinedRegister);
    let used = Lines { between: "mov.b32 %r0, %s0;", ..RIGHT };
    assert_eq!(fault(used).what, Problem::UndefinedRegister);
}

#[test]
fn tiles_stay_until_the_wait() {
    let text = program(
        Lines { between: "bar.sync 0; st.shared.b32 [%base+0], %t; bar.sync 0; // change", ..RIGHT },
        [false; 2],
    );
    let fault = run(&text.replace("[%base+0], %t", "[%base+0], 7"), [false; 2], 128).expect_err("the tile changes");
    assert!(matches!(fault.what, Problem::Race { .. } | Problem::TileChanged { .. }), "{fault}");
    let guarded = text.replace("st.shared.b32 [%base+0], %t", "setp.eq.u32 %p, %t, 0; @%p st.shared.b32 [%base+0], %t");
    let fault = run(&guarded, [false; 2], 128).expect_err("the tile changes");
    assert!(matches!(fault.what, Problem::TileChanged { .. } | Problem::TileNotFenced { .. }), "{fault}");
    assert!(fault.line > line_of(&guarded, "// change"), "{fault}");
}

#[test]
fn descriptors_and_lanes() {
    let right = program(RIGHT, [false; 2]);
    // Another kind of swizzling; one that differs between lanes.
    for (from, to) in [("%a, 4611686293338849280", "%a, 274911461376"), ("%b, %a, 512", "%b, %a, %from")] {
        let fault = run(&right.replace(from, to), [false; 2], 128).expect_err("no descriptor of the subset");
        assert!(matches!(fault.what, Problem::BadDescriptor { .. }), "{fault}");
    }
    let fault = run(&right, [false; 2], 120).expect_err("a warp is not whole");
    assert!(matches!(fault.what, Problem::NotConverged { .. } | Problem::Uninitialised { .. }), "{fault}");
    let old = format!(".version 8.0\n.target sm_90\n.address_size 64\n{right}");
    assert!(Module::parse(&old).is_err_and(|error| error.what.contains("sm_90a")));
}
