//! Copies of boxes, and the barriers that they arrive at.

use emulator::{Fault, Memory, Module, Problem, TensorMap};

use crate::common::{arguments, launch, put, read_words};

const ROWS: u64 = 11;
const COLUMNS: u64 = 70;
/// The elements from one row to the next.
const PITCH: u64 = 72;
/// The rows of a box, of 64 columns each.
const SIDE: u64 = 4;
/// The rows of boxes that the kernel copies, one after the other, to two places in turns.
const BOXES: u64 = 3;

/// The lines of the program that order its accesses.
#[derive(Clone, Copy)]
struct Lines {
    fence: &'static str,
    barrier: &'static str,
    free: &'static str,
    expect: &'static str,
    full: &'static str,
    taken: &'static str,
}

const RIGHT: Lines = Lines {
    fence: "fence.mbarrier_init.release.cluster;",
    barrier: "bar.sync 0;",
    free: "FREE: mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar+8], %before; @!%q bra FREE;",
    expect: "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar+0], 512;",
    full: "FULL: mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar+0], %parity; @!%q bra FULL;",
    taken: "mbarrier.arrive.shared::cta.b64 _, [%bar+8];",
};

/// A block of two warps: a thread of the second one copies boxes, from row `down` and column
/// `across` on, and the threads of the first one store what has arrived, in the order of memory.
fn program(lines: Lines, (across, down): (i64, i64)) -> String {
    let Lines { fence, barrier, free, expect, full, taken } = lines;
    format!(
        ".visible .entry k(.param .u64 to, .param .align 64 .b8 map[128])
        {{
        .reg .pred %p, %q; .reg .b32 %t, %x<4>, %k, %parity, %before, %row; .reg .b64 %to, %map, %bar, %box, %n;
        .shared .align 1024 .b8 memory[1056];
        mov.u32 %t, %tid.x; ld.param.u64 %to, [to]; mad.wide.u32 %to, %t, 16, %to;
        mov.u64 %map, map; cvta.param.u64 %map, %map; mov.u64 %bar, memory;
        setp.ne.u32 %p, %t, 0; @%p bra MADE;
        mbarrier.init.shared::cta.b64 [%bar+1024], 1; mbarrier.init.shared::cta.b64 [%bar+1032], 32;
        mbarrier.init.shared::cta.b64 [%bar+1040], 1; mbarrier.init.shared::cta.b64 [%bar+1048], 32;
        {fence}
        MADE:
        {barrier}
        mov.u32 %k, 0; mov.u32 %row, {down};
        NEXT:
        and.b32 %x0, %k, 1; mad.wide.u32 %bar, %x0, 16, 1024; mad.wide.u32 %box, %x0, 512, 0;
        mov.u64 %n, memory; add.u64 %bar, %bar, %n; add.u64 %box, %box, %n;
        shr.u32 %parity, %k, 1; and.b32 %parity, %parity, 1; xor.b32 %before, %parity, 1;
        setp.ge.u32 %p, %t, 32; @!%p bra STORE;
        setp.ne.u32 %p, %t, 32; @%p bra END;
        {free}
        {expect}
        cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%box+0], [%map, {{{across}, %row}}], [%bar+0];
        bra ON;
        STORE:
        {full}
        mad.wide.u32 %box, %t, 16, %box; ld.shared.v4.b32 {{%x0, %x1, %x2, %x3}}, [%box+0];
        st.global.v4.b32 [%to+0], {{%x0, %x1, %x2, %x3}}; add.u64 %to, %to, 512;
        {taken}
        ON:
        add.u32 %row, %row, {SIDE}; add.u32 %k, %k, 1; setp.lt.u32 %p, %k, {BOXES}; @%p bra NEXT;
        END:
        ret;
        }}"
    )
}

fn element(row: u64, column: u64) -> u16 {
    (row * 1000 + column + 1) as u16
}

fn run(lines: Lines, (across, down): (i64, i64), seed: u64) -> Result<(), Fault> {
    let mut memory = Memory::new();
    let elements = (0..ROWS * PITCH).map(|at| element(at / PITCH, at % PITCH));
    let from = put(&mut memory, &elements.flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    let to = memory.allocate((BOXES * SIDE * 128) as usize);
    let map = TensorMap {
        address: from,
        width: 2,
        counts: vec![COLUMNS, ROWS],
        strides: vec![2 * PITCH],
        sides: vec![64, SIDE as u32],
    };
    let mut parameters = arguments(&[to]);
    parameters.resize(64, 0);
    parameters.extend(map.bytes().expect("a map that is possible"));
    let text = format!(".version 8.0\n.target sm_90\n.address_size 64\n{}", program(lines, (across, down)));
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.launch(&mut memory, "k", launch(1, 64, seed), &parameters)?;
    let found = read_words(&memory, to, (BOXES * SIDE * 32) as usize);
    for (number, found) in found.iter().enumerate() {
        let (row, within) = (number as u64 / 32, number as u64 % 32 * 4);
        // Rows of 128 bytes, with chunks permuted by the row's place in memory.
        let in_memory = row % SIDE + row / SIDE % 2 * SIDE;
        let first = (within ^ (in_memory % 8) << 4) / 2;
        for half in 0..2 {
            let (row, column) = (row as i64 + down, (first + half) as i64 + across);
            let inside = (0..ROWS as i64).contains(&row) && (0..COLUMNS as i64).contains(&column);
            let meant = if inside { element(row as u64, column as u64) } else { 0 };
            assert_eq!(*found >> (16 * half) & 0xffff, u32::from(meant), "{row} {column}");
        }
    }
    Ok(())
}

#[test]
fn boxes_are_copied() {
    for (seed, corner) in
        [(0, 0), (8, 0), (56, 1), (64, 8), (-8, -1), (3, 2), (200, 0), (0, 20)].into_iter().enumerate()
    {
        for seed in [0, seed as u64 + 1] {
            run(RIGHT, corner, seed).unwrap_or_else(|fault| panic!("{corner:?}: {fault}"));
        }
    }
}

#[test]
fn what_orders_is_needed() {
    let faults_of = |lines: Lines, seeds: u64| -> Vec<Problem> {
        (0..seeds).filter_map(|seed| run(lines, (0, 0), seed).err().map(|fault| fault.what)).collect()
    };
    let faults = |lines| faults_of(lines, 8);
    let fenced = faults(Lines { fence: "", ..RIGHT });
    assert!(
        !fenced.is_empty() && fenced.iter().all(|what| matches!(what, Problem::TileNotFenced { .. })),
        "{fenced:?}"
    );
    let is_unordered = |what: &Problem| {
        matches!(
            what,
            Problem::Race { .. }
                | Problem::Uninitialised { .. }
                | Problem::NoBarrier { .. }
                | Problem::TooManyArrive { .. }
        )
    };
    for lines in [Lines { barrier: "", ..RIGHT }, Lines { free: "", ..RIGHT }, Lines { full: "", ..RIGHT }] {
        let found = faults(lines);
        assert!(!found.is_empty() && found.iter().all(is_unordered), "{found:?}");
    }
    // Nobody tells that a box is free, or that it is full.
    for lines in [Lines { taken: "", ..RIGHT }, Lines { expect: "", ..RIGHT }] {
        let found = faults_of(lines, 1);
        assert!(!found.is_empty() && found.iter().all(|what| *what == Problem::Deadlock), "{found:?}");
    }
    let twice = faults(Lines {
        expect: "mbarrier.arrive.shared::cta.b64 _, [%bar+0]; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar+0], 512;",
        ..RIGHT
    });
    assert!(!twice.is_empty());
}

#[test]
fn maps_are_checked() {
    let text = program(RIGHT, (0, 0));
    let fault = |from: &str, to: &str| {
        let text = format!(".version 8.0\n.target sm_90\n.address_size 64\n{}", text.replace(from, to));
        let mut memory = Memory::new();
        let to = memory.allocate((BOXES * SIDE * 128) as usize);
        let mut parameters = arguments(&[to]);
        parameters.resize(192, 0);
        let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        module.launch(&mut memory, "k", launch(1, 64, 1), &parameters).expect_err("there is no map").what
    };
    assert!(matches!(fault("", ""), Problem::NoTensorMap { .. }));
    assert!(matches!(fault("cvta.param.u64 %map, %map;", ""), Problem::NoTensorMap { .. }));
    assert!(matches!(
        fault("[%box+0], [%map", "[%box+16], [%map"),
        Problem::NoTensorMap { .. } | Problem::Misaligned { .. }
    ));
}
