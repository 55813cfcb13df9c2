use super::*;

fn fits(expression: &str, case: Case, text: &[u8]) -> bool {
    Pattern::new(expression, case).unwrap().matches(text).unwrap()
}

fn exact(expression: &str, text: &str) -> bool {
    fits(expression, Case::Exact, text.as_bytes())
}

fn ignoring(expression: &str, text: &str) -> bool {
    fits(expression, Case::Ignored, text.as_bytes())
}

#[test]
fn ordinary_expressions_match_as_everywhere() {
    assert!(exact(r"fn \w+\(", "pub fn main() {"));
    assert!(exact(r"\bmain\b", "fn main()"));
    assert!(!exact(r"\bmain\b", "fn mains()"));
    assert!(exact(r"\b{start}main\b{end}", "fn main()"));
    assert!(exact(r"^\s*$", "   "));
    assert!(exact(r"^\d{3}-[\d-]+$", "123-4-5"));
    assert!(exact(r"[\w.-]+@[^\s@]+", "<a.b-c@d.e>"));
    assert!(!exact(r"[^\W\d]", "12 34"));
    assert!(exact(r"a(?:b|c)*?d", "abcbd"));
    assert!(exact(r"\[x\]", "[x]"));
    assert!(exact(r"", ""));
}

#[test]
fn characters_beyond_ascii_are_characters() {
    assert!(exact("^caf.$", "café"));
    assert!(exact("^[à-ü]+$", "éü"));
    assert!(exact("é{2}", "éé"));
    assert!(!exact("^.{2}$", "é"));
}

#[test]
fn bytes_that_are_no_text_do_not_stop_a_match() {
    assert!(fits("caf. noir", Case::Exact, b"\xff caf\xe9 noir"));
    assert!(fits("^[^a]+$", Case::Exact, b"\xe9\xff"));
    assert!(fits(r"(?-u:\xe9)", Case::Exact, b"caf\xe9"));
    assert!(!fits("é", Case::Exact, b"caf\xe9"));
}

#[test]
fn case_is_ignored_where_asked_for() {
    assert!(ignoring("HeLLo", "hEllO"));
    assert!(ignoring("straße ÄÖ", "STRAßE äö"));
    assert!(ignoring("[a-c]+ Σ", "ABC ς") || ignoring("[a-c]+ Σ", "ABC σ"));
    assert!(!ignoring("^[^a]$", "A"));
    assert!(ignoring("^[^a]$", "B"));
    assert!(exact("(?i)hello", "HELLO"));
    assert!(!exact("hello", "HELLO"));
}

#[test]
fn an_expression_that_cannot_be_understood_says_why() {
    assert!(Pattern::new("a(b", Case::Exact).unwrap_err().contains("unclosed group"));
    assert!(Pattern::new("*", Case::Exact).is_err());
    assert!(Pattern::new(&"(".repeat(200), Case::Exact).is_err());
    assert!(Pattern::new("[^a]{1000}{1000}", Case::Exact).is_err());
    assert!(Pattern::new(&"a".repeat(100_000), Case::Exact).is_err());
}

#[test]
fn lines_are_searched_together_only_where_that_finds_the_same() {
    let together = |expression| Pattern::new(expression, Case::Exact).unwrap().lines_at_once();
    assert!(together(r"^fn \w+"));
    assert!(!together(r"x$"));
    assert!(!together(r"\Ax"));
    assert!(!together(r"x\z"));
    assert!(!together(r"(?-m)^x"));
}

#[test]
fn an_expression_that_defeats_others_takes_linear_time() {
    let mut pattern = Pattern::new("(a|a)*(a|aa)*b", Case::Exact).unwrap();
    assert_eq!(pattern.first_end(&vec![b'a'; 50_000], 0).unwrap(), None);
}
