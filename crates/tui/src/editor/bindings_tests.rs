use std::collections::BTreeSet;

use super::*;

#[test]
fn every_key_of_the_table_is_understood_and_bound_once() {
    let mut seen = BTreeSet::new();
    for row in TABLE {
        for name in row.keys.split(", ") {
            let key = parse(name).unwrap_or_else(|| panic!("{name} is no key"));
            assert_eq!(command(key), Some(row.command), "{name}");
            assert!(seen.insert(name), "{name} is bound twice");
        }
    }
    assert_eq!(bindings().len(), TABLE.len());
}

#[test]
fn keys_are_the_same_however_terminals_tell_them() {
    let held = |control, alt, shift| Modifiers { control, alt, shift };
    let key = |code, modifiers| Key { code, modifiers };
    let same = [
        (key(KeyCode::Char('B'), held(false, true, true)), Command::WordLeft),
        (key(KeyCode::Char('7'), held(true, false, false)), Command::Undo),
        (key(KeyCode::Char('_'), held(true, false, true)), Command::Undo),
        (key(KeyCode::Char('W'), held(true, false, true)), Command::KillBlankWord),
        (key(KeyCode::Left, held(false, false, true)), Command::Left),
        (key(KeyCode::Enter, held(false, false, true)), Command::NewLine),
    ];
    for (key, wanted) in same {
        assert_eq!(command(key), Some(wanted), "{key:?}");
    }
    let back_tab = key(KeyCode::Tab, held(false, false, true));
    assert_eq!(usual(back_tab), Key::plain(KeyCode::BackTab));
    assert_eq!(command(key(KeyCode::Char('7'), Modifiers::default())), None);
}
