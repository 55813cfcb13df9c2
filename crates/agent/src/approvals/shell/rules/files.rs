//! Harm to files.

use super::HarmRule;
use crate::approvals::paths;
use crate::approvals::shell::invocation::{ProgramRun, found_by_find};

pub(super) const RULES: &[HarmRule] = &[
    HarmRule {
        name: "recursive-delete",
        reason: "removes directories with everything in them",
        applies: |it| it.program == "rm" && it.has("rR", "recursive"),
    },
    HarmRule {
        name: "delete-many",
        reason: "removes every file that is found",
        applies: |it| {
            it.program == "find" && it.texts().any(|text| text == "-delete")
                || it.xargs && matches!(it.program, "rm" | "unlink" | "shred")
                || it.program == "rsync" && it.texts().any(|text| text.starts_with("--delete"))
        },
    },
    HarmRule {
        name: "empty-mount",
        reason: "removes all of a directory of your machine that is mounted in the sandbox",
        applies: empties_mount,
    },
    HarmRule {
        name: "shred",
        reason: "destroys the contents of files for good",
        applies: |it| matches!(it.program, "shred" | "srm" | "wipe"),
    },
    HarmRule {
        name: "world-writable",
        reason: "lets everybody on the machine change files",
        applies: opens_to_all,
    },
    HarmRule {
        name: "change-owner",
        reason: "gives files, with everything below them, to the superuser",
        applies: |it| {
            let root = |word: &str| {
                let user = word.split([':', '.']).next().unwrap_or_default();
                matches!(user, "root" | "0")
            };
            it.program == "chown" && it.has("R", "recursive") && it.words().into_iter().any(root)
        },
    },
    HarmRule {
        name: "change-system",
        reason: "changes permissions or owners throughout the system or a home directory",
        applies: |it| {
            matches!(it.program, "chmod" | "chown" | "chgrp")
                && it.has("R", "recursive")
                && it.words().into_iter().any(|word| paths::irreplaceable(&it.path(word)).is_some())
        },
    },
    HarmRule {
        name: "raw-copy",
        reason: "copies raw data, which overwrites what was there",
        applies: |it| {
            it.program == "dd" && it.texts().any(|t| t.starts_with("if=") || t.starts_with("of="))
        },
    },
    HarmRule {
        name: "disk-tool",
        reason: "changes disks, partitions or filesystems",
        applies: |it| {
            let tools = [
                "fdisk",
                "sfdisk",
                "cfdisk",
                "gdisk",
                "sgdisk",
                "parted",
                "wipefs",
                "blkdiscard",
                "mkswap",
                "mke2fs",
                "lvremove",
                "vgremove",
                "pvremove",
                "hdparm",
                "zpool",
            ];
            let named = tools.contains(&it.program) || it.program.split('.').next() == Some("mkfs");
            let encrypts = it.program == "cryptsetup" && it.words().contains(&"luksFormat");
            (named || encrypts) && it.operands().next().is_some()
        },
    },
    HarmRule {
        name: "write-sensitive",
        reason: "changes the system's configuration, credentials or start-up files",
        applies: |it| {
            written(it).into_iter().any(|path| paths::sensitive(&path, it.path_context).is_some())
        },
    },
];

/// Reports whether everything in a mounted directory is removed.
fn empties_mount(it: &ProgramRun<'_>) -> bool {
    let whole = |path: &String| it.path_context.empties_mount(path);
    let operands = || {
        let known = it.operands().filter(|operand| !operand.is_unknown());
        known.map(|operand| it.path(&operand.text))
    };
    match it.program {
        "rm" => (it.sweeps || it.has("rR", "recursive")) && operands().any(|path| whole(&path)),
        "unlink" | "shred" | "truncate" => it.sweeps && operands().any(|path| whole(&path)),
        "find" => {
            it.texts().any(|text| text == "-delete")
                && found_by_find(it).is_some_and(|starts| starts.iter().any(whole))
        }
        "rsync" => {
            it.texts().any(|text| text.starts_with("--delete"))
                && operands().last().is_some_and(|target| whole(&target))
        }
        _ => false,
    }
}

fn opens_to_all(it: &ProgramRun<'_>) -> bool {
    let opens = |mode: &str| {
        let octal = mode.len() >= 3 && mode.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let last = mode.bytes().last().unwrap_or(b'0');
        let symbolic = mode.split(',').any(|clause| {
            let Some(at) = clause.find(['+', '=']) else { return false };
            let who = &clause[..at];
            (who.contains(['o', 'a'])) && clause[at..].contains('w')
        });
        octal && (last - b'0') & 2 != 0 || symbolic
    };
    it.program == "chmod" && it.words().first().is_some_and(|mode| opens(mode))
}

/// Returns the paths that a command changes, as far as its arguments tell.
fn written(it: &ProgramRun<'_>) -> Vec<String> {
    let words = it.words();
    let all = || words.clone();
    let target = || {
        let named = it.texts().skip_while(|text| *text != "-t").nth(1);
        let long = it.texts().find_map(|text| text.strip_prefix("--target-directory="));
        named.or(long).or(words.last().copied()).into_iter().collect()
    };
    let changed: Vec<&str> = match it.program {
        "tee" | "truncate" | "rm" | "unlink" | "shred" | "touch" | "rmdir" | "mkdir" | "mv"
        | "vi" | "vim" | "nano" | "ed" | "ex" | "patch" | "gzip" | "gunzip" | "bzip2"
        | "bunzip2" | "xz" | "unxz" | "zstd" | "unzstd" => all(),
        "cp" | "install" | "ln" | "rsync" | "scp" if words.len() > 1 => target(),
        "chmod" | "chown" | "chgrp" | "setfacl" | "uniq" | "xxd" => {
            words.iter().skip(1).copied().collect()
        }
        "sed" if it.has("i", "in-place") => all(),
        "perl" | "ruby" if it.has("i", "") => all(),
        "dd" => it.texts().filter_map(|text| text.strip_prefix("of=")).collect(),
        "sort" | "tree" | "dot" | "cc" | "gcc" | "g++" | "clang" | "clang++" | "rustc" | "go" => {
            after(it, &["-o", "--output"])
        }
        "curl" => after(it, &["-o", "--output"]),
        "wget" => after(it, &["-O", "--output-document"]),
        "tar" | "unzip" => after(it, &["-C", "-d", "--directory"]),
        _ => Vec::new(),
    };
    changed.into_iter().map(|text| it.path(text)).collect()
}

/// Returns the words right after certain options.
fn after<'a>(it: &ProgramRun<'a>, options: &[&str]) -> Vec<&'a str> {
    let words: Vec<&str> = it.texts().collect();
    let pairs = words.windows(2);
    pairs.filter(|pair| options.contains(&pair[0])).map(|pair| pair[1]).collect()
}
