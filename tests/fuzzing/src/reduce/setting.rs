//! Reduces the setting: no change of the program, arrays treated as their size suggests, a simpler
//! engine, fewer passes, the cost model instead of a coin, and at the end the least fuel.

use std::io;

use backends::cpu::{MemoryRegime, Simd};
use compiler::pipeline::Options;
use ir::Passes;
use ir::choice::Policy;
use ir::decision::FusionPass;

use super::Reduction;
use crate::case::{Setting, Through};
use crate::engines::Engine;

/// Engines, the plainest first.
const PLAIN: [Engine; 4] =
    [Engine::Nest, Engine::Cpu(1, Simd::W128), Engine::Cpu(1, Simd::W256), Engine::Cpu(1, Simd::Auto)];

/// More merges no program takes.
const MOST_MERGES: u64 = 1 << 12;

impl Reduction<'_, '_> {
    /// Plainer settings.
    pub(super) fn settings(&mut self) -> io::Result<bool> {
        let mut any = false;
        // The text after the change instead of the change, which is then irrelevant.
        if let Some(variation) = self.case.setting.variation {
            let now = self.case.setting.clone();
            if let Some(source) = variation.apply(&now.source, &now.entry) {
                any |= self.accept_setting(Setting { source, variation: None, ..now.clone() })?;
            }
            if self.case.setting.variation.is_some() {
                any |= self.accept_setting(Setting { variation: None, ..now })?;
            }
        }
        if self.case.setting.far != MemoryRegime::Auto {
            any |= self.accept_setting(Setting { far: MemoryRegime::Auto, ..self.case.setting.clone() })?;
        }
        if self.case.setting.through != Through::Backend {
            any |= self.accept_setting(Setting { through: Through::Backend, ..self.case.setting.clone() })?;
        }
        for engine in PLAIN {
            if engine == self.case.setting.engine {
                break;
            }
            let Engine::Cpu(..) = self.case.setting.engine else {
                // A failure of GPU code may come from that code alone, but one that its loop nests
                // share does not.
                if engine == Engine::Nest && self.accept_setting(self.with_engine(engine))? {
                    any = true;
                }
                break;
            };
            if self.accept_setting(self.with_engine(engine))? {
                any = true;
                break;
            }
        }
        let now = self.case.setting.options.clone();
        let single = FusionPass::ALL.iter().map(|pass| Passes::NONE.with(*pass)).filter(|one| *one != now.fuse);
        let plainer = Options { fuse: Passes::NONE, ..Options::default() };
        let mut plainer: Vec<Options> = [plainer].into_iter().filter(|_| now.fuse != Passes::NONE).collect();
        if now.policy != Policy::Model {
            plainer.push(Options::default());
        }
        let is_several = FusionPass::ALL.iter().filter(|pass| now.fuse.contains(**pass)).count() > 1;
        if is_several {
            plainer.extend(single.map(|fuse| Options { fuse, ..now.clone() }));
        }
        for options in plainer {
            let setting = Setting { options, ..self.case.setting.clone() };
            if self.accept_setting(setting)? {
                return Ok(true);
            }
        }
        Ok(any)
    }

    fn with_engine(&self, engine: Engine) -> Setting {
        Setting { engine, ..self.case.setting.clone() }
    }

    /// The least fuel with which it fails, by bisection. The last merge is then the one to look at.
    pub(super) fn fuel(&mut self) -> io::Result<Option<u64>> {
        let with = |fuel, now: &Setting| Setting {
            options: Options { fuel: Some(fuel), ..now.options.clone() },
            ..now.clone()
        };
        let (mut right, mut wrong) = (0, self.case.setting.options.fuel.unwrap_or(MOST_MERGES));
        while right < wrong && !self.is_over() {
            let middle = right.midpoint(wrong);
            if self.accept_setting(with(middle, &self.case.setting))? { wrong = middle } else { right = middle + 1 }
        }
        Ok((wrong < MOST_MERGES).then_some(wrong))
    }
}
