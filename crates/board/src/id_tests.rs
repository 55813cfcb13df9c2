use std::collections::BTreeSet;

use super::*;

#[test]
fn a_name_that_was_made_reads_as_itself() {
    for _ in 0..100 {
        let id = TaskId::generate().unwrap();
        assert_eq!(id.as_str().parse(), Ok(id.clone()), "{id}");
        assert!(TaskId::is_prefix(&id.as_str()[..5]));
    }
}

#[test]
fn names_use_all_of_their_bits() {
    let letters: BTreeSet<(usize, char)> = (0..2000)
        .map(|_| TaskId::generate().unwrap())
        .flat_map(|id| id.as_str()[2..].char_indices().collect::<Vec<_>>())
        .collect();
    assert_eq!(letters.len(), LETTERS * ALPHABET.len(), "each letter at each place");
}

#[test]
fn what_names_no_task_is_refused() {
    let unlike = [
        "",
        "t_",
        "t_123",
        "x_000000000000",
        "t_00000000000u",
        "t_0000000000000",
        "t_../../../ab",
        "T_000000000000",
        "t_00000000000é",
    ];
    for text in unlike {
        assert!(text.parse::<TaskId>().is_err(), "{text}");
    }
    let long = "t_".to_owned() + &"0".repeat(10_000);
    assert!(long.parse::<TaskId>().unwrap_err().text.len() <= 40);
}
