//! The report on fusion of a function. (The crate `reports` writes it as text.)

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use compiler::explain::{Report, Sizes, explain};
use interp::scalar::ARITHMETIC;
use ir::SymbolId;
use ir::checked::Checked;
use ir::nest::{Program, Relation, Requirement};
use reports::page::{self, Shade};
use reports::roof::Roof;
use schedule::{Machine, schedule};

use crate::{CompileError, Device, Options, Source, Style, roof};

mod placed;

pub use placed::{Placed, Wait};

/// The report on fusion of a function: its kernels before and after, how much they move and
/// compute, and for each pair of operations that could share a kernel whether they do, or the
/// reason why not and a suggestion.
///
/// ```
/// use fuseloop::{Options, Program, Style};
///
/// let program = Program::parse("fn shifted(x: f32[n]) = exp(x - max(x))")?;
/// let explanation = program.main()?.explain(&Options::default(), &[("n", 1000)])?;
/// let text = explanation.render(Style::Plain);
/// assert!(text.starts_with("shifted: 3 operations in 2 kernels"), "{text}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Explanation {
    source: Arc<Source>,
    report: Report,
    /// The program before fusion, and the options that it was fused with.
    unfused: (Program, compiler::pipeline::Options),
    /// The program after fusion.
    fused: Program,
    /// The device that it is for.
    machine: Machine,
    /// The limits of the device, if the kernels are for a GPU, or those that are given.
    roof: Option<Roof>,
}

/// The reason why there is no report.
#[derive(Clone, Debug)]
pub enum ExplainError {
    /// The function cannot be compiled.
    Compile(CompileError),
    /// A name that is not one of the function's sizes.
    UnknownSize {
        /// The name.
        name: String,
        /// The function's size names.
        known: Vec<String>,
    },
    /// A size below 0.
    NegativeSize {
        /// The name.
        name: String,
        /// The size.
        value: i64,
    },
    /// Sizes that no call can have.
    Sizes {
        /// The requirement that they violate, such as `m == 2 * n`.
        requirement: String,
    },
}

impl Explanation {
    pub(crate) fn new(
        source: Arc<Source>,
        checked: &Checked,
        options: &Options,
        sizes: &[(&str, i64)],
    ) -> Result<Explanation, ExplainError> {
        let names = Sizes::new(checked);
        let mut given = BTreeMap::new();
        for (name, value) in sizes {
            let Some((symbol, _)) = names.names().find(|(_, known)| known == name) else {
                let known = names.names().map(|(_, name)| name.to_owned()).collect();
                return Err(ExplainError::UnknownSize { name: (*name).to_owned(), known });
            };
            if *value < 0 {
                return Err(ExplainError::NegativeSize { name: (*name).to_owned(), value: *value });
            }
            given.insert(symbol, *value);
        }
        if let Some(requirement) = checked.requires.iter().find(|r| is_unmet(r, &names, &given)) {
            let relation = if requirement.relation == Relation::Equal { "==" } else { "<=" };
            let (left, right) = (names.text(&requirement.left), names.text(&requirement.right));
            return Err(ExplainError::Sizes { requirement: format!("{left} {relation} {right}") });
        }
        let pipeline = options.pipeline();
        let compiled = compiler::pipeline::compile(checked, &pipeline).map_err(CompileError::from)?;
        let report = explain(checked, &compiled, options.fuse, &source.text, &given, &ARITHMETIC);
        let roof = (options.device == Device::Gpu).then(roof::of_gpu);
        let machine = options.device.machine();
        let unfused = (compiled.unfused, pipeline);
        Ok(Explanation { source, report, unfused, fused: compiled.program, machine, roof })
    }

    /// The same, with the partition of the program into kernels that moves the fewest bytes, and
    /// the distance of the plan from it. For programs with more than 14 operations it only says
    /// that. Takes up to some seconds.
    #[must_use]
    pub fn with_best(mut self) -> Explanation {
        let (unfused, options) = &self.unfused;
        self.report.find_best(unfused, options);
        self
    }

    /// The same, with the parts that the kernels run in, on a GPU if the options name one and else
    /// on the CPU: `docs/schedules.md`.
    ///
    /// # Errors
    ///
    /// [`ExplainError::Compile`] if a kernel is larger than the device takes.
    ///
    /// ```
    /// use fuseloop::{Options, Program};
    ///
    /// let program = Program::parse("fn norm(x: f32[n]) = sqrt(sum(x * x))")?;
    /// let explanation = program.main()?.explain(&Options::default(), &[])?.with_schedule()?;
    /// assert!(explanation.to_string().contains("kernel 1, part 2 of 2: in one piece"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_schedule(mut self) -> Result<Explanation, ExplainError> {
        let scheduled = schedule(&self.fused, self.machine).map_err(CompileError::from)?;
        self.report.add_schedule(&scheduled, &ARITHMETIC);
        Ok(self)
    }

    /// The same for a machine with given limits: they are those of the roofline, and of the least
    /// time of each kernel.
    ///
    /// ```
    /// use fuseloop::{Options, Program, Roof};
    ///
    /// let program = Program::parse("fn scaled(x: f32[n]) = x * 2")?;
    /// let machine = Roof { device: Some("a laptop".to_owned()), copy: 50.0, flops: 500.0 };
    /// let explanation = program.main()?.explain(&Options::default(), &[("n", 1_000_000)])?.with_roof(machine);
    /// assert!(explanation.to_string().contains("kernel 1 takes at least 160.0 us, for memory"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_roof(mut self, roof: Roof) -> Explanation {
        self.roof = Some(roof);
        self
    }

    /// The operations in the source, each with the kernel that computes it.
    ///
    /// ```
    /// use fuseloop::{Options, Program};
    ///
    /// let program = Program::parse("fn share(x: f32[n]) = x / sum(x)")?;
    /// let explanation = program.main()?.explain(&Options::default(), &[])?;
    /// let kernels: Vec<usize> = explanation.shades().iter().map(|shade| shade.kernel).collect();
    /// assert_eq!(kernels, [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shades(&self) -> Vec<Shade<'_>> {
        page::shades(&self.report)
    }

    /// The report as data.
    pub(crate) fn report(&self) -> &Report {
        &self.report
    }

    /// Kernels of the unfused program: one for each operation.
    pub fn kernels_before(&self) -> usize {
        self.report.before.kernels.len()
    }

    /// Kernels that are launched.
    pub fn kernels_after(&self) -> usize {
        self.report.after.kernels.len()
    }

    /// Bytes that cross between memory and caches without fusion, if all sizes that they depend on
    /// are given.
    pub fn bytes_before(&self) -> Option<u64> {
        self.report.before.total.bytes.value
    }

    /// Bytes that cross between memory and caches, if all sizes that they depend on are given.
    pub fn bytes_after(&self) -> Option<u64> {
        self.report.after.total.bytes.value
    }

    /// The report for people, on at most two screens: for a large program, the kernels that move
    /// the most, the beginning of their loops, and the most expensive decisions.
    pub fn render(&self, style: Style) -> String {
        reports::explain::text(&self.source, &self.report, self.roof.as_ref(), style, false)
    }

    /// The whole report, for people, however long it is.
    pub fn render_all(&self, style: Style) -> String {
        reports::explain::text(&self.source, &self.report, self.roof.as_ref(), style, true)
    }

    /// The report for programs, as one line with the fields listed in `docs/json.md`.
    pub fn to_json(&self) -> String {
        reports::explain::json(&self.source, &self.report, self.roof.as_ref())
    }

    /// The report as a self-contained HTML page. Its roofline is that of the machine that was
    /// given, of the GPU, or of this machine's processor, which takes part of a second to measure.
    pub fn to_html(&self) -> String {
        let roof = self.roof.clone().or_else(roof::of_cpu);
        page::explain(&self.source, &self.report, roof.as_ref())
    }

    /// The same without the head and the text of the program, as a part of a page that shows the
    /// program itself and has the style sheet of reports (`reports/src/page/style.css`).
    pub fn to_html_part(&self) -> String {
        let roof = self.roof.clone().or_else(roof::of_cpu);
        page::explain_part(&self.source, &self.report, roof.as_ref())
    }

    /// The operations and the flows between them, grouped by kernel: a graph for Graphviz.
    pub fn to_dot(&self) -> String {
        reports::explain::dot(&self.report)
    }
}

/// Whether the given sizes are enough to tell that no call can have them.
fn is_unmet(requirement: &Requirement, names: &Sizes, given: &BTreeMap<SymbolId, i64>) -> bool {
    let value = |size| names.known(size, given).as_constant();
    let (Some(left), Some(right)) = (value(&requirement.left), value(&requirement.right)) else { return false };
    let met = match requirement.relation {
        Relation::Equal => left == right,
        Relation::AtMost => left <= right,
    };
    !met && requirement.unless_empty.iter().all(|size| value(size).is_some_and(|n| n > 0))
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Style::Plain))
    }
}

impl From<CompileError> for ExplainError {
    fn from(error: CompileError) -> ExplainError {
        ExplainError::Compile(error)
    }
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplainError::Compile(error) => error.fmt(f),
            ExplainError::UnknownSize { name, known } if known.is_empty() => {
                write!(f, "there is no size `{name}`: the function has no size names")
            }
            ExplainError::UnknownSize { name, known } => {
                let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "there is no size `{name}`; there is {}", known.join(", "))
            }
            ExplainError::NegativeSize { name, value } => write!(f, "the size `{name}` is {value}, below 0"),
            ExplainError::Sizes { requirement } => write!(f, "no call has these sizes: they must meet `{requirement}`"),
        }
    }
}

impl std::error::Error for ExplainError {}
