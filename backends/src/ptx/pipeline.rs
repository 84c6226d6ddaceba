//! Software pipelines: a ring of stages in dynamic shared memory. Each stage holds the tiles of
//! both factors of a product. Later stages are filled while the current one is multiplied.

use ir::sabotage::{self, Bug};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Comparison, Opcode, Reg, Type};
use super::tile::Inner;

/// The dimensions of a pipeline.
#[derive(Clone, Copy)]
pub(super) struct Pipeline {
    /// The number of stages.
    pub(super) stages: i64,
    /// The number of stages that are on their way while one is multiplied.
    pub(super) lead: i64,
    /// The bytes of a stage.
    pub(super) bytes: i64,
    /// The inner indices of a stage.
    pub(super) depth: i64,
    /// Whether products end after their instructions: tensor cores read the stage in the meantime.
    pub(super) by_tensor_cores: bool,
}

impl Emitter<'_> {
    /// Calls a function for each stage when it is filled, with its offset. `fill` starts to fill
    /// one from an inner index on, unless that is past the end.
    pub(super) fn for_each_stage(
        &mut self,
        pipeline: Pipeline,
        inner: Inner<'_>,
        fill: impl Fn(&mut Self, Reg, Reg),
        multiply: impl FnOnce(&mut Self, Reg),
    ) {
        let Pipeline { stages, lead, bytes, depth, by_tensor_cores } = pipeline;
        let (zero, filled) = (self.int(0), self.int(lead * bytes));
        let from = inner.from.unwrap_or(zero);
        // The inner index of the next stage to fill, and where it is.
        let (coming, comes_to) = (self.b().copy(from), self.b().copy(zero));
        let fill_next = |e: &mut Self| {
            fill(e, coming, comes_to);
            e.b().group_copies();
            e.b().op_to(coming, Opcode::Add, Type::S64, &[coming.into(), depth.into()]);
            e.advance_stage(pipeline, comes_to);
        };
        self.while_(|e| e.b().set(Comparison::Lt, Type::S64, comes_to, filled), fill_next);
        let (now, stage) = (self.b().copy(from), self.b().copy(zero));
        self.while_(
            |e| e.b().set(Comparison::Lt, Type::S64, now, inner.end),
            |e| {
                // The barrier has two purposes: the current stage is complete, and all warps are
                // done with an earlier one, so that it can be filled again: with the previous
                // one, or, if products are still on their way after their instructions, with the
                // one before.
                e.b().await_groups((lead - 1) as u32);
                if by_tensor_cores {
                    e.b().fence_tiles();
                    e.b().barrier();
                    multiply(e, stage);
                    fill_next(e);
                    e.b().await_products((stages - 1 - lead) as u32);
                } else {
                    if !sabotage::on(Bug::PtxProducts) {
                        e.b().barrier();
                    }
                    fill_next(e);
                    multiply(e, stage);
                }
                e.b().op_to(now, Opcode::Add, Type::S64, &[now.into(), depth.into()]);
                e.advance_stage(pipeline, stage);
            },
        );
        // The epilogue reuses this memory, so no copy may be in flight, and no product.
        if by_tensor_cores {
            self.b().await_products(0);
        }
        self.b().await_copies();
        self.b().barrier();
    }

    /// Advances to the next stage of the ring.
    fn advance_stage(&mut self, Pipeline { stages, bytes, .. }: Pipeline, stage: Reg) {
        let next = self.b().op2(Opcode::Add, Type::S64, stage, bytes);
        let is_last = self.b().set(Comparison::Eq, Type::S64, next, stages * bytes);
        let next = self.b().select(Type::B64, 0, next, is_last);
        self.b().assign(stage, next);
    }
}
