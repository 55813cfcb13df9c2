use super::*;

#[test]
fn a_key_is_not_in_its_debug_text() {
    assert_eq!(format!("{:?}", Secret::new(" sk-1234567890\n")), "Secret");
}

#[test]
fn blanks_around_a_key_are_no_part_of_it() {
    assert_eq!(Secret::new(" sk-1234567890\n").expose(), "sk-1234567890");
}

#[test]
fn a_message_is_masked_before_it_is_cut() {
    let mut mask = Mask::default();
    mask.add("sk-secret\"quoted");
    mask.add("sk-secret");
    let text = "bad key sk-secret\"quoted and sk-secret\\\"quoted\nand\u{1b}[31m sk-secret.";
    assert_eq!(mask.clean(text, 500), "bad key *** and *** and [31m ***.");
    assert_eq!(mask.clean("key sk-secret", 6), "key **…");
}
