//! The PTX engine: compiles verified programs for CUDA devices, a launch for each part of a
//! kernel, or for two of them, for any sizes.
//!
//! `compile` selects a form for each part and generates its variants; `plan` picks the variants for
//! the sizes of a call and lays out memory, and `run` has a [`Device`] execute the plan. This
//! module knows no driver: see `cuda`.
//!
//! | file | holds |
//! |---|---|
//! | `compile` | the variants of each part, with the sizes that each is for |
//! | `emit` | code generation for a kernel: values, indices, addresses, loads, stores |
//! | `state` | its state in groups: mapping onto threads, masks, addresses, scans |
//! | `scalar`, `fast_division` | operations; division and square roots without branches |
//! | `checks` | bounds checks |
//! | `loops`, `unroll` | loops over the threads of a block or in one thread; unrolling |
//! | `ordered`, `owners` | serial loops that merge into tables, by the lanes of a warp; short tables in registers |
//! | `reduce`, `alone`, `fold` | reductions by a block and by one thread; the states that they merge |
//! | `held` | short rows that a thread keeps in registers while it goes through another loop |
//! | `last` | joining the results of chunks in the last block of their launch |
//! | `scan`, `relay` | scans; long ones in chunks, with a block that relays what is before each |
//! | `rows`, `staging` | rows in registers, their tails in shared memory |
//! | `collectives`, `prefixes` | reductions and scans of rows across the threads of a warp, block or cluster |
//! | `columns` | reductions along columns, in strips |
//! | `layout`, `vectors`, `stencil`, `transpose` | loops that the schedule has laid out: in threads, in vectors, with register reuse, in tiles |
//! | `contract`, `factor`, `pipeline`, `tensor`, `epilogue` | matrix products by threads or tensor cores |
//! | `tensor_map` | memory as bulk copies see it |
//! | `build`, `inst`, `print` | the builder, instructions as data, their text |
//! | `plan`, `steps`, `run`, `resident` | the launches and memory of a call; their order, loops included; running them on a device |
//! | `order` | launches that run at the same time |

mod alone;
mod blocks;
mod build;
mod checks;
mod collectives;
mod columns;
mod compile;
mod contract;
mod device;
mod emit;
mod epilogue;
mod factor;
mod fast_division;
mod fold;
mod held;
mod inst;
mod last;
mod layout;
mod loops;
mod order;
mod ordered;
mod owners;
mod parts;
mod pipeline;
mod plan;
mod prefixes;
mod print;
mod reduce;
mod relay;
mod resident;
mod rows;
mod run;
mod scalar;
mod scan;
mod scoped;
mod split;
mod staging;
mod state;
mod stencil;
mod steps;
mod tensor;
mod tensor_map;
mod tile;
mod transpose;
mod unroll;
mod vectors;

pub use crate::settings::{Math, Phases};
pub(crate) use compile::Blocks;
pub use compile::Module;
pub use device::{Access, Device, Facts, Launch, Target};
pub use plan::{Plan, Planned, Word};
pub(crate) use resident::{Resident, ResidentCall};
pub use run::{RunError, Runner};
pub(crate) use state::Argument;
pub use tensor_map::TensorMap;
