//! How a piece of text is indented in the file and in the model's words.

/// Returns the blanks a line starts with.
fn indent_of(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Returns lines without the indentation they have in common, and without
/// blanks at their ends.
pub(super) fn without_common<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let common = filled.map(|line| indent_of(line).len()).min().unwrap_or(0);
    lines.iter().map(|line| line.get(common..).unwrap_or_default().trim_end()).collect()
}

/// What indentation of the model's stands for which of the file's.
pub(in crate::tools::patch) struct Indents<'a> {
    /// Theirs and the file's, line by line.
    pairs: Vec<(&'a str, &'a str)>,
    /// Blanks that stand for one tab.
    tab: usize,
}

impl<'a> Indents<'a> {
    /// Compares lines of the model's with those of the file they stand for.
    pub(in crate::tools::patch) fn between(theirs: &[&'a str], file: &[&'a str]) -> Self {
        let pairs: Vec<(&str, &str)> = theirs
            .iter()
            .zip(file)
            .filter(|(theirs, file)| !theirs.trim().is_empty() && !file.trim().is_empty())
            .map(|(theirs, file)| (indent_of(theirs), indent_of(file)))
            .collect();
        let tab = tab_width(&pairs);
        Self { pairs, tab }
    }

    /// Compares lines of the model's with those of the file they stand for, and
    /// with the lines that are to take their place: where those are indented as
    /// the file is already, only the old ones were written wrongly.
    pub(super) fn towards(theirs: &[&'a str], file: &[&'a str], new: &[&str]) -> Self {
        let indents = Self::between(theirs, file);
        if is_indented_as(theirs, file, new) {
            return Self { pairs: Vec::new(), ..indents };
        }
        indents
    }

    /// Returns a new line of the model's as it stands in the file.
    pub(in crate::tools::patch) fn apply(&self, line: &str) -> String {
        let indent = indent_of(line);
        if line.trim().is_empty() || self.pairs.iter().all(|(theirs, file)| theirs == file) {
            return line.to_owned();
        }
        format!("{}{}", self.of(indent), &line[indent.len()..])
    }

    fn of(&self, indent: &str) -> String {
        let known = self.pairs.iter().filter(|(theirs, _)| indent.starts_with(theirs));
        if let Some((theirs, file)) = known.max_by_key(|(theirs, _)| theirs.len()) {
            return format!("{file}{}", self.deeper(&indent[theirs.len()..]));
        }
        // It is less deep than any line there was: as much less in the file.
        let Some((theirs, file)) = self.pairs.iter().min_by_key(|(theirs, _)| theirs.len()) else {
            return indent.to_owned();
        };
        let less = self.deeper(theirs.get(indent.len()..).unwrap_or_default());
        file.get(..file.len().saturating_sub(less.len())).unwrap_or_default().to_owned()
    }

    /// Returns further indentation in the file's kind of blanks.
    fn deeper(&self, blanks: &str) -> String {
        let tabs_in = |of: fn(&(&'a str, &'a str)) -> &'a str| {
            self.pairs.iter().any(|pair| of(pair).contains('\t'))
        };
        match (tabs_in(|pair| pair.0), tabs_in(|pair| pair.1)) {
            (false, true) if !blanks.contains('\t') => {
                let (tabs, spaces) = (blanks.len() / self.tab, blanks.len() % self.tab);
                format!("{}{}", "\t".repeat(tabs), " ".repeat(spaces))
            }
            (true, false) => blanks.replace('\t', &" ".repeat(self.tab)),
            _ => blanks.to_owned(),
        }
    }
}

/// Returns how many blanks before a place belong to what is replaced there: all
/// that indent the line, where the old text begins within them and the new one
/// brings them along.
pub(super) fn surplus(before: &str, old: &str, new: &str) -> usize {
    let line = before.rsplit('\n').next().unwrap_or_default();
    // A text that does not begin with blanks is a piece of its line.
    let is_indent = !line.is_empty() && line.trim().is_empty() && !indent_of(old).is_empty();
    let brought = indent_of(new) == format!("{line}{}", indent_of(old));
    if is_indent && brought && !new.trim().is_empty() { line.len() } else { 0 }
}

/// Reports whether new lines are indented as the file is, and not as the old
/// ones are: the lines that both have tell, else the first of each.
fn is_indented_as(old: &[&str], file: &[&str], new: &[&str]) -> bool {
    let filled = |line: &&&str| !line.trim().is_empty();
    let mut as_file = 0;
    let mut as_old = 0;
    let mut is_shared = false;
    for line in new.iter().filter(filled) {
        let Some(place) = old.iter().position(|old| old.trim() == line.trim()) else { continue };
        let Some(found) = file.get(place) else { continue };
        is_shared = true;
        let (theirs, found, given) = (indent_of(old[place]), indent_of(found), indent_of(line));
        as_file += usize::from(theirs != found && given == found);
        as_old += usize::from(theirs != found && given == theirs);
    }
    if is_shared {
        return as_file > 0 && as_old == 0;
    }
    let first = |lines: &[&str]| lines.iter().find(filled).map(|line| indent_of(line).to_owned());
    let (old, file, new) = (first(old), first(file), first(new));
    new == file && new != old
}

/// Estimates how many spaces stand for a tab.
fn tab_width(pairs: &[(&str, &str)]) -> usize {
    let mut widths = pairs.iter().filter_map(|(theirs, file)| {
        let (tabs, spaces) = match (theirs.contains('\t'), file.contains('\t')) {
            (false, true) => (file.matches('\t').count(), theirs.len()),
            (true, false) => (theirs.matches('\t').count(), file.len()),
            _ => return None,
        };
        (spaces >= tabs && spaces.is_multiple_of(tabs)).then(|| spaces / tabs)
    });
    widths.next().unwrap_or(4)
}
