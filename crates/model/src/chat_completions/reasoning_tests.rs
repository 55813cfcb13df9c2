use super::*;
use proptest::prelude::*;

/// Returns thoughts and words of an answer that comes in pieces of a size.
fn told(answer: &str, size: usize) -> (String, String) {
    let mut tags = ThinkTags::default();
    let chars: Vec<char> = answer.chars().collect();
    let mut pieces: Vec<AnswerPiece> =
        chars.chunks(size).flat_map(|piece| tags.push(&String::from_iter(piece))).collect();
    pieces.extend(tags.end());
    let (mut thoughts, mut words) = (String::new(), String::new());
    for piece in pieces {
        match piece {
            AnswerPiece::Thought(text) => thoughts.push_str(&text),
            AnswerPiece::Words(text) => words.push_str(&text),
        }
    }
    (thoughts, words)
}

#[test]
fn thoughts_at_the_beginning_are_told_from_words_however_they_come() {
    let cases = [
        ("<think>hm, é</think>\n\nYes.", "hm, é", "Yes."),
        ("\n<thinking>a < b </thin</thinking>Yes.", "a < b </thin", "Yes."),
        ("<think>never ends", "never ends", ""),
        ("Use <think>tags</think>.", "", "Use <think>tags</think>."),
        ("<thin", "", "<thin"),
        ("  two", "", "  two"),
        ("<think></think>", "", ""),
    ];
    for (answer, thoughts, words) in cases {
        for size in 1..=answer.len() {
            assert_eq!(told(answer, size), (thoughts.into(), words.into()), "{answer} by {size}");
        }
    }
}

proptest! {
    #[test]
    fn an_answer_without_a_tag_is_not_changed(answer in "[a-z <>/\n]{0,40}", size in 1_usize..9) {
        prop_assume!(!TAGS.iter().any(|(open, _)| answer.trim_start().starts_with(open)));
        prop_assert_eq!(told(&answer, size), (String::new(), answer));
    }
}
