//! Clusters: blocks that synchronize and write to each other's shared memory.

use crate::common::{launch, put, read_words, run, words};
use emulator::{Memory, Module, Problem, Space};

/// Each thread passes its number to the next block of its cluster, runs `wait`, and stores the
/// number that it received.
fn ring(first: &str, wait: &str, after: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 out)
.explicitcluster
.reqnctapercluster 4, 1, 1
{{
    .reg .b32 %r<8>;
    .reg .b64 %a<8>;
    .shared .align 4 .b8 slots[256];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %cluster_ctarank;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 32, %r0;
    mul.wide.u32 %a0, %r0, 4;
    mov.u64 %a1, slots;
    add.u64 %a1, %a1, %a0;
    add.u32 %r4, %r1, 1;
    and.b32 %r4, %r4, 3;
    mapa.shared::cluster.u64 %a2, %a1, %r4;
    {first}
    st.shared::cluster.u32 [%a2], %r3;
    {wait}
    ld.shared.u32 %r5, [%a1];
    ld.param.u64 %a3, [out];
    mul.wide.u32 %a4, %r3, 4;
    add.u64 %a3, %a3, %a4;
    st.global.u32 [%a3], %r5;
    {after}
    ret;
}}"
    )
}

const MEET: &str = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;";

#[test]
fn blocks_of_a_cluster_write_to_each_other() {
    for seed in 0..20 {
        let mut memory = Memory::new();
        let out = put(&mut memory, &words(&[0; 12 * 32]));
        let stats = run(&ring(MEET, MEET, ""), &mut memory, launch(12, 32, seed), &[out]).unwrap();
        assert_eq!(stats.barriers, 6, "two a cluster");
        let expected: Vec<u32> = (0..12 * 32).map(|k| if k % 128 < 32 { k + 96 } else { k - 32 }).collect();
        assert_eq!(read_words(&memory, out, 12 * 32), expected);
    }
}

/// Whether some order of turns finds the problem.
fn found(body: &str, is: impl Fn(&Problem) -> bool) -> bool {
    (0..40).any(|seed| {
        let mut memory = Memory::new();
        let out = put(&mut memory, &words(&[0; 4 * 32]));
        run(body, &mut memory, launch(4, 32, seed), &[out]).is_err_and(|fault| is(&fault.what))
    })
}

#[test]
fn who_does_not_wait_races() {
    let body = ring(MEET, "bar.sync 0;", "");
    assert!(found(&body, |what| matches!(what, Problem::Race { space: Space::Shared, .. })));
}

#[test]
fn blocks_that_have_not_begun_or_have_ended_have_no_memory() {
    let outside = |what: &Problem| matches!(what, Problem::OutOfBounds { space: Space::Shared, .. });
    assert!(found(&ring("", MEET, ""), outside));
    assert!(found(&ring(MEET, MEET, "st.shared::cluster.u32 [%a2+128], %r3;"), outside));
    let body = ring(&format!("add.u32 %r4, %r1, 4;\nmapa.shared::cluster.u64 %a2, %a1, %r4;\n{MEET}"), MEET, "");
    assert!(found(&body, outside), "no such block");
}

#[test]
fn launches_have_whole_clusters() {
    let mut memory = Memory::new();
    let out = put(&mut memory, &words(&[0; 6 * 32]));
    let fault = run(&ring(MEET, MEET, ""), &mut memory, launch(6, 32, 0), &[out]).unwrap_err();
    assert_eq!(fault.what, Problem::Shape);
}

#[test]
fn what_is_no_cluster_is_refused() {
    let text = |target: &str, body: &str| format!(".version 8.0\n.target {target}\n.address_size 64\n{body}");
    let body = ring(MEET, MEET, "");
    assert!(Module::parse(&text("sm_80", &body)).is_err());
    assert!(Module::parse(&text("sm_90", &body.replace("cluster 4,", "cluster 16,"))).is_err());
    for alone in ["barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"] {
        let body = ring(MEET, alone, "");
        let error = Module::parse(&text("sm_90", &body)).unwrap_err();
        assert!(error.to_string().contains("a cluster's barrier"), "{error}");
    }
}
