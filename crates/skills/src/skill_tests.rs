use super::*;

#[test]
fn only_names_that_are_one_everywhere_are_taken() {
    for fine in ["a", "pdf-forms", "2fa", "a-b-c", &"x".repeat(64)] {
        assert_eq!(SkillName::new(fine).unwrap().as_str(), fine);
    }
    for wrong in
        ["", "-a", "a-", "a--b", "A", "a_b", "a b", "ä", "a/b", "..", ".a", &"x".repeat(65)]
    {
        let error = SkillName::new(wrong).unwrap_err().to_string();
        assert!(error.contains("lowercase"), "{wrong}: {error}");
    }
}
