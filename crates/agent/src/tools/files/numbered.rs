//! Line numbers, as reading a file shows them.

/// Returns how many lines a text has if all of them are numbered one behind
/// the other, as reading a file shows them.
pub(in crate::tools) fn numbered_lines(text: &str) -> Option<usize> {
    let number = |line: &str| line.split_once('|')?.0.trim().parse::<u64>().ok();
    let mut last: Option<u64> = None;
    let mut count = 0;
    for line in text.lines() {
        let number = number(line)?;
        if last.is_some_and(|last| last.checked_add(1) != Some(number)) {
            return None;
        }
        last = Some(number);
        count += 1;
    }
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_one_behind_the_other_count() {
        assert_eq!(numbered_lines("1|a\n2|b\n3|\n"), Some(3));
        assert_eq!(numbered_lines("  99|a\n 100|b"), Some(2));
        assert_eq!(numbered_lines("7|a"), Some(1));
        for text in ["", "1|a\nb\n", "3|a\n1|b\n", "a|b\nc|d\n", "1|x\n\n2|y\n", "-1|a\n0|b"] {
            assert_eq!(numbered_lines(text), None, "{text:?}");
        }
        assert_eq!(numbered_lines(&format!("{0}|a\n{0}|b", u64::MAX)), None);
    }
}
