//! Less memory for more work: where the states that a derivative keeps do not fit, the function is
//! compiled again with deeper blocks.

use std::sync::{Arc, OnceLock};

use grammar::ast::File;
use ir::Dtype;
use ir::checked::Checked;

use super::{Kernel, Options, Times};
use crate::{Signature, Source};

/// The deepest blocks: then a loop of a billion steps keeps the states of 30,000.
const DEEPEST: u32 = 4;

/// How a function is checked again.
#[derive(Clone, Debug)]
pub(crate) struct Thrift {
    file: Arc<File>,
    float: Dtype,
    name: String,
    /// The depth of its blocks.
    depth: u32,
}

impl Thrift {
    /// For a function of a file where `float` is a type, if that can take less memory.
    pub fn of(file: &Arc<File>, float: Dtype, checked: &Checked) -> Option<Thrift> {
        let depth = checked.blocks.iter().map(|blocks| blocks.depth).max()?;
        Some(Thrift { file: Arc::clone(file), float, name: checked.name.clone(), depth })
    }
}

/// A kernel that takes less memory, once it is asked for.
pub(super) struct Thriftier {
    thrift: Thrift,
    options: Options,
    kernel: OnceLock<Option<Box<Kernel>>>,
}

impl Thriftier {
    pub fn new(thrift: &Thrift, options: &Options) -> Thriftier {
        let thrift = Thrift { depth: thrift.depth + 1, ..thrift.clone() };
        Thriftier { thrift, options: options.clone(), kernel: OnceLock::new() }
    }

    /// The kernel, if there is one.
    pub fn kernel(&self, source: &Arc<Source>, signature: &Signature) -> Option<&Kernel> {
        let make = || {
            let Thrift { file, float, name, depth } = &self.thrift;
            let checked = compiler::check::check_deeper(file, name, *float, *depth).ok()?;
            let next = (*depth < DEEPEST).then_some(&self.thrift);
            let of = (&Arc::new(checked), next);
            let kernel = Kernel::new(Arc::clone(source), of, signature.clone(), &self.options, Times::default());
            kernel.ok().map(Box::new)
        };
        self.kernel.get_or_init(make).as_deref()
    }
}
