//! What nobody can want, and nothing lifts.

use super::HarmRule;
use crate::approvals::paths;
use crate::approvals::shell::invocation::{ProgramRun, found_by_find};

/// Name and reason of the one rule that is about more than one command.
pub(in crate::approvals::shell) const FORK_BOMB: (&str, &str) =
    ("fork-bomb", "starts processes without end");

/// Rules that nothing lifts.
pub(in crate::approvals::shell) const HARDLINE: &[HarmRule] = &[
    HarmRule {
        name: "delete-system",
        reason: "removes the system or a whole home directory",
        applies: deletes_system,
    },
    HarmRule {
        name: "format-disk",
        reason: "makes a new filesystem on a disk",
        applies: formats_disk,
    },
    HarmRule { name: "overwrite-disk", reason: "writes over a disk", applies: overwrites_disk },
    HarmRule { name: "kill-everything", reason: "ends every process", applies: kills_everything },
    HarmRule {
        name: "power-off",
        reason: "shuts down or restarts the machine",
        applies: powers_off,
    },
];

fn deletes_system(it: &ProgramRun<'_>) -> bool {
    let doomed = |text: &str| paths::irreplaceable(&it.path(text)).is_some();
    let known = || it.operands().filter(|operand| !operand.is_unknown());
    match it.program {
        "rm" => {
            (it.sweeps || it.has("rR", "recursive")) && known().any(|operand| doomed(&operand.text))
        }
        "unlink" | "shred" | "truncate" => {
            it.sweeps && known().any(|operand| doomed(&operand.text))
        }
        // Without any condition everything below is removed.
        "find" => {
            it.texts().any(|text| text == "-delete")
                && found_by_find(it).is_some_and(|starts| starts.iter().any(|start| doomed(start)))
        }
        _ => false,
    }
}

fn formats_disk(it: &ProgramRun<'_>) -> bool {
    let formats = it.program == "mkfs" || it.program.starts_with("mkfs.") || it.program == "mke2fs";
    formats && it.operands().any(|operand| it.path(&operand.text).starts_with("/dev/"))
}

fn overwrites_disk(it: &ProgramRun<'_>) -> bool {
    let disk = |text: &str| paths::is_disk(&it.path(text));
    match it.program {
        "dd" => it.texts().filter_map(|text| text.strip_prefix("of=")).any(disk),
        "tee" | "shred" | "wipefs" | "blkdiscard" => it.words().into_iter().any(disk),
        "cp" | "mv" | "install" => it.words().last().is_some_and(|target| disk(target)),
        _ => false,
    }
}

fn kills_everything(it: &ProgramRun<'_>) -> bool {
    if it.program == "killall5" {
        return true;
    }
    if it.program != "kill" {
        return false;
    }
    let words: Vec<&str> = it.texts().collect();
    let targets = match words.as_slice() {
        ["-s" | "-n" | "--signal", _, rest @ ..] => rest,
        ["-l" | "-L", ..] => &[],
        [only] => std::slice::from_ref(only),
        [signal, rest @ ..] if signal.starts_with('-') && *signal != "--" => rest,
        all => all,
    };
    targets.contains(&"-1")
}

fn powers_off(it: &ProgramRun<'_>) -> bool {
    let words = it.words();
    let asks_only = it.texts().any(|text| matches!(text, "--help" | "--version"));
    let target = |word: &str| {
        let word = word.trim_end_matches(".target");
        matches!(word, "poweroff" | "reboot" | "halt" | "kexec" | "soft-reboot" | "shutdown")
    };
    match it.program {
        "shutdown" => !asks_only && !it.texts().any(|text| matches!(text, "-c" | "-k" | "--show")),
        "reboot" | "halt" | "poweroff" => {
            !asks_only && !it.texts().any(|text| matches!(text, "-w" | "--wtmp-only"))
        }
        "init" | "telinit" => words.first().is_some_and(|level| matches!(*level, "0" | "6")),
        "systemctl" | "loginctl" => match words.as_slice() {
            ["isolate" | "start", rest @ ..] => rest.iter().any(|word| target(word)),
            [verb, ..] => target(verb),
            [] => false,
        },
        _ => false,
    }
}
