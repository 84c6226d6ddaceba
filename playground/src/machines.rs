//! The machines of the roofline, by the figures of their data sheets.

#![forbid(unsafe_code)]

use fuseloop::Roof;

/// Names, bytes that memory moves in a nanosecond, and `f32` operations in one (`fma` counts two).
const MACHINES: &[(&str, f64, f64)] = &[
    // Two channels of DDR5-5600; 8 cores at 4.5 GHz, two FMA of 256 bits each.
    ("a desktop computer, 8 cores", 89.6, 1152.0),
    // LPDDR4X-4266 on 128 bits; 4 fast cores at 3.2 GHz, four FMA of 128 bits each.
    ("a laptop, Apple M1", 68.0, 410.0),
    // Twelve channels of DDR5-4800; 96 cores at 2.4 GHz, two FMA of 256 bits each.
    ("a server, AMD EPYC 9654", 460.8, 7373.0),
    // LPDDR4X-4267 on 32 bits; 4 cores at 2.4 GHz, two FMA of 128 bits each.
    ("a Raspberry Pi 5", 17.1, 154.0),
    // As measured: `docs/gpu.md`.
    ("a GPU, NVIDIA H200", 4270.0, 63_000.0),
];

/// The names, in the order of the list.
pub(crate) fn names() -> Vec<&'static str> {
    MACHINES.iter().map(|(name, ..)| *name).collect()
}

/// A machine by name, or else the first one.
pub(crate) fn roof(name: Option<&str>) -> Roof {
    let found = MACHINES.iter().find(|(known, ..)| Some(*known) == name);
    let (name, copy, flops) = found.unwrap_or(&MACHINES[0]);
    Roof { device: Some((*name).to_owned()), copy: *copy, flops: *flops }
}
