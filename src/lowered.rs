//! Lowered functions for hosts other than this library, with what their failures mean in the terms
//! of the source.

use std::sync::Arc;

use ir::Origin;
use ir::nest::{CheckKind, Program, SiteId};

use crate::error::named;
use crate::{CompileError, Function, Options, Signature, Source};

/// A function that is being compiled for another host.
pub(crate) struct Lowered {
    pub(crate) source: Arc<Source>,
    pub(crate) signature: Signature,
    pub(crate) program: Program,
}

impl Lowered {
    pub(crate) fn new(function: &Function<'_>, options: &Options) -> Result<Lowered, CompileError> {
        function.hold_kernels()?;
        let (source, signature) = (Arc::clone(function.source()), function.signature().clone());
        Ok(Lowered { source, signature, program: function.lower(options)? })
    }

    /// The error if the check at a site fails.
    pub(crate) fn site(&self, site: SiteId) -> String {
        let site = &self.program.sites[site];
        let place = self.place(site.origin);
        match &site.what {
            CheckKind::Axis { array, axis } => {
                format!(
                    "{place}a subscript (found) is outside of {}, whose axis {axis} has a length (wanted)",
                    named(array)
                )
            }
            CheckKind::Elements(op) => format!("{place}`{}` of no element has no answer", op.name()),
            CheckKind::Steps => format!("{place}a loop takes more than (wanted) steps"),
        }
    }

    /// The place in the source, such as `softmax.fl:3:5: `, or nothing if there is none.
    pub(crate) fn place(&self, origin: Origin) -> String {
        if origin.end == 0 {
            return String::new();
        }
        let (name, line, column) = self.source.place(origin.start as usize);
        format!("{name}:{line}:{column}: ")
    }
}
