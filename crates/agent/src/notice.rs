//! What there is to know about a sandbox, in words.

use vestal_sandbox::Notice;

/// Says it in a line.
pub(crate) fn in_words(notice: &Notice) -> String {
    match notice {
        Notice::NoIsolation => {
            "commands run on this machine as you: the sandbox does not isolate them".to_owned()
        }
        Notice::Drift(drift) => {
            let keys: Vec<&str> = drift.iter().map(|drift| drift.key.as_str()).collect();
            format!("settings changed since the sandbox was made: {}", keys.join(", "))
        }
        Notice::Recreated { reason } => {
            format!("the sandbox could not be started and was made anew: {reason}")
        }
        Notice::Applied(drift) => {
            let keys: Vec<&str> = drift.iter().map(|drift| drift.key.as_str()).collect();
            let less: Vec<&str> = drift
                .iter()
                .filter(|drift| drift.loosens)
                .map(|drift| drift.key.as_str())
                .collect();
            let less = match less.as_slice() {
                [] => String::new(),
                keys => format!("; it may be isolated less than before: {}", keys.join(", ")),
            };
            format!("the sandbox has taken changed settings: {}{less}", keys.join(", "))
        }
        Notice::Duplicate { name } => {
            format!("another instance of this sandbox runs and has jobs: {name}")
        }
        Notice::Remark(text) => text.clone(),
    }
}
