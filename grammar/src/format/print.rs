//! Decides which breaks become line breaks: either all breaks of a group or none, and none if the
//! group fits. It decides from the outermost group inwards. Each decision looks ahead by at most
//! one line, so formatting takes linear time.

use std::ops::Range;

use super::shape::{Break, End, Item, Kind};
use super::tokens::Text;
use super::{INDENT, WIDTH};

/// Indentation stops at this column, so that the output of deeply nested source is not much longer
/// than the source.
const MAX_INDENT: usize = 60;

/// A finished line.
#[derive(Default)]
pub(super) struct Line {
    /// Whether a blank line precedes it.
    pub(super) blank: bool,
    pub(super) indent: usize,
    pub(super) code: String,
    pub(super) comment: Option<usize>,
    /// Whether the comment stands at the end of code or continues one that does.
    pub(super) at_end: bool,
}

/// The lines of a program.
pub(super) fn lines(text: &Text<'_>, items: &[Item]) -> Vec<Line> {
    let mut printer = Printer {
        text,
        items,
        lines: vec![],
        line: Line::default(),
        comments: 0..0,
        levels: vec![0],
        groups: vec![],
        function: None,
        before: None,
    };
    for at in 0..items.len() {
        printer.item(at);
    }
    printer.lines
}

struct Printer<'t, 's> {
    text: &'t Text<'s>,
    items: &'t [Item],
    lines: Vec<Line>,
    /// The line being written.
    line: Line,
    /// The comments that wait for the end of the line.
    comments: Range<usize>,
    /// The indentation levels of the open groups; the last one applies.
    levels: Vec<usize>,
    /// For each open group, whether it is broken.
    groups: Vec<bool>,
    /// The first line of this function.
    function: Option<usize>,
    /// The first line after the function before this one, and whether that is a single line.
    before: Option<(usize, bool)>,
}

impl Printer<'_, '_> {
    fn item(&mut self, at: usize) {
        let item = &self.items[at];
        for depth in (1..=item.opens).rev() {
            let may_break = self.groups.last().is_none_or(|broken| *broken);
            self.groups.push(may_break && !self.fits(at, depth, self.column()));
        }
        match &item.kind {
            Kind::Text(span) => self.line.code.push_str(self.text.text(*span)),
            Kind::Space => self.line.code.push(' '),
            Kind::Comments(comments) if self.comments.is_empty() => self.comments = comments.clone(),
            Kind::Comments(comments) => self.comments.end = comments.end,
            Kind::Break(place) => self.line_break(at, place),
            Kind::End(end) => self.end(end),
            Kind::Value { hangs } => self.value(at, *hangs),
            Kind::TrailingComma if self.broken() => self.line.code.push(','),
            Kind::TrailingComma => {}
            Kind::Indent(levels) => self.levels.push(self.level() + levels),
            Kind::Dedent => {
                self.levels.pop();
            }
            Kind::Open => self.groups.push(true),
            Kind::Close => {
                self.groups.pop();
            }
        }
    }

    fn level(&self) -> usize {
        self.levels.last().copied().unwrap_or(0)
    }

    fn broken(&self) -> bool {
        self.groups.last().is_none_or(|broken| *broken)
    }

    /// The column that the line has reached.
    fn column(&self) -> usize {
        self.line.indent + self.line.code.len()
    }

    /// Whether the next `groups` groups from item `at`, and the text after them up to the next
    /// possible break, fit on a line that has reached `column`. A group that contains a comment
    /// does not fit, because a comment ends its line.
    fn fits(&self, at: usize, mut groups: u32, mut column: usize) -> bool {
        let mut comment = !self.comments.is_empty();
        for (n, item) in self.items[at..].iter().enumerate() {
            if n > 0 && groups > 0 {
                groups += item.opens;
            }
            match &item.kind {
                Kind::Text(span) => column += (span.end - span.start) as usize,
                Kind::Space => column += 1,
                Kind::Comments(comments) => comment |= !comments.is_empty(),
                Kind::Break(_) if groups == 0 => break,
                Kind::Break(_) if comment => return false,
                Kind::Break(place) => column += usize::from(place.space),
                Kind::TrailingComma => column += usize::from(groups == 0),
                Kind::Open => groups += 1,
                Kind::Close => groups = groups.saturating_sub(1),
                Kind::End(_) | Kind::Value { .. } => break,
                Kind::Indent(_) | Kind::Dedent => {}
            }
            if column > WIDTH {
                return false;
            }
        }
        true
    }

    fn line_break(&mut self, at: usize, place: &Break) {
        let space = usize::from(place.space);
        let broken = !self.comments.is_empty()
            || (self.broken() && !(place.fill && self.fits(at + 1, 0, self.column() + space)));
        if broken {
            let inside = self.level() + usize::from(place.closes);
            self.end_line(inside);
            self.own_comments(inside, None);
            self.line.indent = columns(self.level());
        } else if place.space {
            self.line.code.push(' ');
        }
    }

    fn value(&mut self, at: usize, hangs: bool) {
        let (value, level) = (at + 1, self.level());
        let groups = self.items.get(value).map_or(0, |item| item.opens);
        let here = self.column() + 1;
        let next = columns(level + 1);
        let stays = self.comments.is_empty()
            && (self.fits(value, groups, here)
                || (hangs && !self.fits(value, groups, next) && self.fits(value, 0, here)));
        if stays {
            self.levels.push(level);
            self.line.code.push(' ');
        } else {
            self.levels.push(level + 1);
            self.end_line(level + 1);
            self.own_comments(level + 1, None);
            self.line.indent = next;
        }
    }

    fn end(&mut self, end: &End) {
        let inside = self.level() + usize::from(end.closes);
        self.end_line(inside);
        if end.function {
            self.end_function();
        }
        let gap = self.lines.len();
        self.own_comments(inside, Some(!end.tight));
        let first = self.lines.len() == gap;
        self.line.blank = end.blank && !(first && end.tight) && !self.lines.is_empty();
        self.line.indent = columns(self.level());
        if end.function {
            self.function = Some(self.lines.len());
        }
    }

    /// Blank lines separate functions, except single-line functions that the author wrote without a
    /// blank line between them.
    fn end_function(&mut self) {
        let single = self.function.is_some_and(|start| {
            self.lines.iter().skip(start).filter(|line| !line.code.is_empty()).take(2).count() == 1
        });
        if let (Some(start), Some((gap, before))) = (self.function, self.before)
            && !(single && before)
            && let Some(lines) = self.lines.get_mut(gap..=start)
            && !lines.iter().any(|line| line.blank)
        {
            lines[0].blank = true;
        }
        self.before = self.function.map(|_| (self.lines.len(), single));
    }

    /// Ends the current line, if there is one, together with its comment and with those below it
    /// that continue the comment. A comment in the column where lines of this level begin is not
    /// taken for a continuation, since it may stand there by chance.
    fn end_line(&mut self, level: usize) {
        if self.line.code.is_empty() {
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        line.code.truncate(line.code.trim_end().len());
        let all = &self.text.comments;
        if let Some(first) = self.comments.clone().next().filter(|first| !all[*first].own_line) {
            self.comments.next();
            line.comment = Some(first);
            line.at_end = true;
            self.lines.push(line);
            let goes_on = |next: &usize| all[*next].continues && all[*next].column != Some(columns(level));
            while let Some(next) = self.comments.clone().next().filter(goes_on) {
                self.comments.next();
                self.lines.push(Line { comment: Some(next), at_end: true, ..Line::default() });
            }
        } else {
            self.lines.push(line);
        }
    }

    /// Puts the waiting comments on lines of their own. `blanks` says whether the author's blank
    /// lines between them are kept, and also the one before them.
    fn own_comments(&mut self, level: usize, blanks: Option<bool>) {
        for (n, comment) in std::mem::take(&mut self.comments).enumerate() {
            let keep = blanks.is_some_and(|before| before || n > 0) && !self.lines.is_empty();
            let blank = keep && self.text.comments[comment].blank;
            self.lines.push(Line { blank, indent: columns(level), comment: Some(comment), ..Line::default() });
        }
    }
}

fn columns(level: usize) -> usize {
    (level * INDENT).min(MAX_INDENT)
}
