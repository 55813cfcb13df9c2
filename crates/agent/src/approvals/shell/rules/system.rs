//! Harm to the machine and to what runs on it.

use super::HarmRule;
use crate::approvals::shell::invocation::ProgramRun;

pub(super) const RULES: &[HarmRule] = &[
    HarmRule {
        name: "stop-service",
        reason: "stops, restarts or disables services",
        applies: |it| {
            let words = it.words();
            let verb = match it.program {
                "systemctl" => words.first(),
                "service" | "rc-service" => words.get(1),
                _ => None,
            };
            let verbs = ["stop", "restart", "disable", "mask", "kill", "isolate", "try-restart"];
            let more = ["suspend", "hibernate", "emergency", "rescue", "revert", "set-default"];
            verb.is_some_and(|verb| verbs.contains(verb) || more.contains(verb))
        },
    },
    HarmRule {
        name: "kill-many",
        reason: "ends processes by name, without letting them finish",
        applies: |it| {
            let hard = |text: &str| {
                let signal = text.trim_start_matches('-').trim_start_matches("SIG");
                matches!(signal, "9" | "KILL") || text == "--signal=KILL" || text == "--signal=9"
            };
            matches!(it.program, "pkill" | "killall" | "skill") && it.texts().any(hard)
        },
    },
    HarmRule {
        name: "kill-vestal",
        reason: "ends Vestal itself",
        applies: |it| {
            let by_name = matches!(it.program, "pkill" | "killall")
                && it.words().iter().any(|w| w.contains("vestal"));
            // The first process of the machine, or of the sandbox.
            by_name || it.program == "kill" && it.words().last().is_some_and(|w| *w == "1")
        },
    },
    HarmRule {
        name: "sudo-shell",
        reason: "opens a shell of another user, or lets a program hand over a password",
        applies: |it| {
            let su = it.program == "su" && !it.texts().any(|text| text == "--help");
            su || it.sudo.is_some_and(|sudo| sudo.shell || sudo.asks_program || sudo.reads_password)
        },
    },
    HarmRule {
        name: "cron",
        reason: "changes commands that run by the clock",
        applies: |it| it.program == "crontab" && !it.texts().eq(["-l"]) && !it.arguments.is_empty(),
    },
    HarmRule {
        name: "firewall",
        reason: "takes down or changes the firewall",
        applies: |it| {
            let words = it.words();
            match it.program {
                "iptables" | "ip6tables" => it.has("FXPD", "flush") || it.has("", "policy"),
                "nft" => words.iter().any(|word| matches!(*word, "flush" | "delete")),
                "ufw" => words.iter().any(|word| matches!(*word, "disable" | "reset" | "delete")),
                "setenforce" => true,
                _ => false,
            }
        },
    },
    HarmRule {
        name: "accounts",
        reason: "changes the accounts of this machine",
        applies: |it| {
            let tools = ["userdel", "groupdel", "usermod", "deluser", "visudo", "chpasswd", "vipw"];
            tools.contains(&it.program)
                || it.program == "passwd"
                    && !it.texts().any(|text| matches!(text, "-S" | "--status"))
        },
    },
    HarmRule {
        name: "kernel",
        reason: "changes the running kernel",
        applies: |it| {
            matches!(it.program, "insmod" | "rmmod" | "kexec")
                || it.program == "modprobe" && it.has("r", "remove")
                || it.program == "sysctl" && it.has("w", "write")
        },
    },
    HarmRule {
        name: "stop-container",
        reason: "stops or removes containers, images or volumes",
        applies: stops_container,
    },
    HarmRule {
        name: "open-container",
        reason: "starts a container that can change this machine",
        applies: |it| {
            let engine = matches!(it.program, "docker" | "podman" | "nerdctl");
            let starts = it.words().iter().any(|word| matches!(*word, "run" | "create" | "exec"));
            let opens = |text: &str| {
                let value = text.rsplit('=').next().unwrap_or(text);
                text == "--privileged"
                    || text.starts_with("--cap-add")
                    || value.starts_with("/:")
                    || text.contains("docker.sock")
                    || matches!(text, "--pid=host" | "--userns=host" | "--ipc=host")
            };
            engine && starts && it.texts().any(opens)
        },
    },
    HarmRule {
        name: "vestal",
        reason: "changes or removes what Vestal keeps",
        applies: changes_vestal,
    },
];

fn stops_container(it: &ProgramRun<'_>) -> bool {
    let engine = matches!(it.program, "docker" | "podman" | "nerdctl" | "docker-compose");
    let words = it.words();
    let verbs = ["stop", "kill", "restart", "rm", "rmi", "prune", "down", "pause", "remove"];
    // The verb is the first or, after a noun, the second word.
    engine && words.iter().take(3).any(|word| verbs.contains(word)) && !runs_something(&words)
}

fn runs_something(words: &[&str]) -> bool {
    words.first().is_some_and(|verb| matches!(*verb, "run" | "exec" | "build" | "create" | "logs"))
}

fn changes_vestal(it: &ProgramRun<'_>) -> bool {
    if it.program != "vestal" {
        return false;
    }
    let words = it.words();
    let verb = words.iter().find(|word| {
        // A profile's or a task's name may stand before the verb.
        VERBS.iter().any(|(verb, _)| verb == *word)
    });
    let below = |nouns: &[&str]| nouns.is_empty() || words.iter().any(|word| nouns.contains(word));
    let named = verb.and_then(|verb| VERBS.iter().find(|(own, _)| own == verb));
    named.is_some_and(|(_, nouns)| below(nouns)) || it.texts().any(|text| text == "--yolo")
}

/// Verbs of our own, and which of their own verbs are meant; none: all.
const VERBS: [(&str, &[&str]); 11] = [
    ("rm", &[]),
    ("prune", &[]),
    ("stop", &[]),
    ("restore", &[]),
    ("rebuild", &[]),
    ("migrate", &[]),
    ("profile", &["delete", "rename", "import", "use"]),
    ("conversations", &["delete"]),
    ("config", &["set"]),
    ("gateway", &["stop", "restart"]),
    ("mcp", &["add", "remove"]),
];
