//! Which keys the chat has of its own: one table, read by it and by help.

use vestal_tui::{Key, bindings};

/// What a key of the chat asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Leave.
    Leave,
    /// Begin at the top of an empty screen.
    ClearScreen,
    /// Show more of what a tool printed.
    Unfold,
    /// Show or hide what the model thinks.
    Thoughts,
    /// Edit the input elsewhere.
    Edit,
    /// Stop the process.
    Stop,
}

/// The keys, by their letters together with Ctrl.
const KEYS: [(char, &str, &str, Act); 6] = [
    ('o', "Ctrl-O", "all that the last tool printed; while it runs, more of it", Act::Unfold),
    ('t', "Ctrl-T", "show or hide what the model thinks, when nothing is written", Act::Thoughts),
    ('g', "Ctrl-G", "write in $VISUAL or $EDITOR", Act::Edit),
    ('l', "Ctrl-L", "clear the screen; what was said can be scrolled back to", Act::ClearScreen),
    ('z', "Ctrl-Z", "stop the chat until `fg`", Act::Stop),
    ('d', "Ctrl-D", "leave, when nothing is written", Act::Leave),
];

/// What else is to be known, which is no single key.
const OTHERS: [(&str, &str); 5] = [
    ("Enter", "while the model works: say it to the model at its next step"),
    ("Esc", "interrupt what runs; what is written stays"),
    ("Ctrl-C", "clear the input, else interrupt what runs, else leave (twice)"),
    ("!command", "run it yourself, in the same shell"),
    ("@path", "a picture goes with the words"),
];

/// Returns what a key asks the chat for.
pub(crate) fn act(key: Key) -> Option<Act> {
    KEYS.iter().find(|(letter, ..)| key == Key::control(*letter)).map(|(.., act)| *act)
}

/// Returns the keys of the chat, as people read them, and what each does.
pub(crate) fn of_chat() -> Vec<(&'static str, &'static str)> {
    let keys = KEYS.iter().map(|(_, name, what, _)| (*name, *what));
    OTHERS.iter().copied().chain(keys).collect()
}

/// Returns the keys of the input, which are the editor's. What the chat has
/// more to say of is left to it.
pub(crate) fn of_input() -> Vec<(&'static str, &'static str)> {
    let ours = ["Ctrl-C", "Ctrl-D", "Esc"];
    bindings().iter().copied().filter(|(keys, _)| !ours.contains(keys)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_help_names_does_what_it_says() {
        for (letter, name, _, wanted) in KEYS {
            assert_eq!(name, format!("Ctrl-{}", letter.to_ascii_uppercase()));
            assert_eq!(act(Key::control(letter)), Some(wanted));
        }
        assert_eq!(act(Key::control('x')), None);
    }
}
