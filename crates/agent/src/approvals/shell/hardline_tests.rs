use super::testing::path_context;
use super::*;

#[track_caller]
fn blocked(rule: &str, commands: &[&str]) {
    for command in commands {
        let findings = examine(command, &path_context()).findings;
        let hit = findings.iter().any(|f| f.rule == rule && f.severity == Risk::Hardline);
        assert!(hit, "{command:?} is not blocked by {rule}: {findings:?}");
    }
}

#[track_caller]
fn not_blocked(commands: &[&str]) {
    for command in commands {
        let findings = examine(command, &path_context()).findings;
        let worst = findings.iter().map(|finding| finding.severity).max();
        assert!(worst < Some(Risk::BlockedOnHost), "{command:?} is blocked: {findings:?}");
    }
}

#[test]
fn the_system_and_homes_are_never_removed() {
    blocked(
        "delete-system",
        &[
            "rm -rf /",
            "rm -fr /*",
            "rm -r -f -- /",
            "rm --recursive --force /",
            "rm --recurs /",
            "rm -rf --no-preserve-root /",
            "rm -rf ~",
            "rm -rf ~/",
            "rm -rf ~/*",
            "rm -rf $HOME",
            "rm -rf \"$HOME\"/",
            "rm -rf ${HOME}",
            "rm -rf /home/me",
            "rm -rf /home/me/",
            "rm -rf /home/someone",
            "rm -rf ~root",
            "rm -rf /etc",
            "rm -rf /usr/",
            "rm -rf /var/*",
            "rm -rf //",
            "rm -rf /./",
            "rm -rf /tmp/../",
            "rm -rf /tmp/../etc",
            "rm -rf /etc/../usr/./",
            "rm -rf ~/..",
            "rm -rf /{bin,etc}",
            "rm -rf /e?c",
            "rm -rf /[eb]*",
            "rm -rf x /",
            "find / -delete",
            "find /etc -xdev -delete",
            "find / -type f -delete",
            "find / -exec rm -rf {} +",
            "find / -exec rm {} \\;",
            "find / -mindepth 1 -not -path '/proc/*' -exec rm -rf {} +",
            "find / -name '*' -exec sudo rm -f {} +",
            "find ~ | xargs rm",
            "find / | xargs rm",
            "find / -print0 | xargs -0 rm -f",
            "find / | sort | grep -v proc | xargs -n 1 rm",
            "find / | xargs -I X rm -rf X",
            "find / | while read f; do rm -rf \"$f\"; done",
            "ls / | xargs rm -rf",
            "ls -a / | sudo xargs rm -rf",
            "cd / && ls | xargs rm -rf",
            "rm -rf $(ls /)",
            "rm -rf $(find /)",
            "for f in $(find /home); do rm -rf $f; done",
        ],
    );
}

#[test]
fn no_disguise_helps() {
    blocked(
        "delete-system",
        &[
            "r\\m -rf /",
            "r''m -rf /",
            "\"r\"m -rf /",
            "'rm' '-rf' '/'",
            "rm -r\\\nf /",
            "$'\\x72m' -rf /",
            "$'\\162m' -rf $'/'",
            "rm${IFS}-rf${IFS}/",
            "rm$IFS-rf$IFS/",
            "/bin/rm -rf /",
            "/bin//./rm -rf /",
            "X=/; rm -rf $X",
            "a=r b=m; $a$b -rf /",
            "X='rm -rf /'; $X",
            "export D=/; rm -rf \"$D\"",
            "rm -rf ${X:-/}",
            "{rm,-rf,/}",
            "r$@m -rf /",
            "r\0m -rf /",
            "\u{ff52}\u{ff4d} -rf /",
            "r\u{1b}m -rf /",
            "cd / && rm -rf *",
            "cd /; rm -rf .",
            "cd /etc/.. && rm -rf ./*",
            "cd && rm -rf .",
            "(cd /; rm -rf *)",
            "for d in /tmp /etc; do rm -rf $d; done",
            "$(echo rm) -rf /",
            "`echo rm` -rf /",
            "rm -rf $(echo /)",
            "echo / | xargs rm -rf",
        ],
    );
}

#[test]
fn no_wrapping_helps() {
    blocked(
        "delete-system",
        &[
            "sudo rm -rf /",
            "sudo -u root -- rm -rf /",
            "sudo -E env A=1 rm -rf /",
            "env -i A=b rm -rf /",
            "env -S 'rm -rf /'",
            "A=1 B=2 rm -rf /",
            "nice -n 10 rm -rf /",
            "nohup rm -rf / &",
            "time rm -rf /",
            "timeout -k 5 10s rm -rf /",
            "timeout --signal KILL 10 rm -rf /",
            "command rm -rf /",
            "exec rm -rf /",
            "busybox rm -rf /",
            "setsid nohup ionice -c 3 rm -rf /",
            "flock /tmp/l rm -rf /",
            "flock /tmp/l -c 'rm -rf /'",
            "xargs -n 1 rm -rf / < list",
            "sh -c 'rm -rf /'",
            "bash -lc \"rm -rf /\"",
            "bash -o pipefail -c 'rm -rf /'",
            "sh -c 'sh -c \"rm -rf /\"'",
            "eval rm -rf /",
            "eval 'rm' '-rf /'",
            "echo 'rm -rf /' | sh",
            "printf 'rm -rf /\\n' | bash -s",
            "bash <<< 'rm -rf /'",
            "bash <<EOF\nrm -rf /\nEOF",
            "cat <<'EOF' | sh\nrm -rf /\nEOF",
            "cat <<EOF\n$(rm -rf /)\nEOF",
            "echo $(rm -rf /)",
            "echo \"`rm -rf /`\"",
            "echo \"${X:-$(rm -rf /)}\"",
            "diff <(rm -rf /) b",
            "true && rm -rf /",
            "false || rm -rf /",
            "ls | rm -rf /",
            "ls & rm -rf /",
            "ls\nrm -rf /",
            "{ rm -rf /; }",
            "if true; then rm -rf /; fi",
            "while rm -rf /; do :; done",
            "case x in y) rm -rf /;; esac",
            "f() { rm -rf /; }; f",
            "function f { rm -rf /; }",
            "! rm -rf /",
            "[[ -n $(rm -rf /) ]]",
            "a=($(rm -rf /))",
            "(( $(rm -rf /) ))",
            "trap 'rm -rf /' EXIT",
            "alias ll='rm -rf /'",
            "su -c 'rm -rf /'",
            "watch 'rm -rf /'",
            "find . -exec rm -rf / \\;",
            "python3 -c \"import os; os.system('rm -rf /')\"",
            "perl -e 'system(\"rm -rf /\")'",
            "rm -rf / # harmless",
            "rm -rf /\necho 'never closed",
        ],
    );
}

#[test]
fn disks_are_never_formatted_or_overwritten() {
    blocked(
        "format-disk",
        &["mkfs /dev/sda1", "mkfs.ext4 -F /dev/nvme0n1", "sudo mke2fs /dev/vdb"],
    );
    blocked(
        "overwrite-disk",
        &[
            "dd if=/dev/zero of=/dev/sda",
            "dd of=/dev/nvme0n1 if=x bs=1M",
            "cat x > /dev/sda",
            "echo x >> /dev/mmcblk0",
            "echo x | tee /dev/sdb",
            "cp image /dev/sdc",
            "> /dev/vda",
            "cat x 1>/dev/sda",
            "cat x &> /dev/sda",
        ],
    );
    not_blocked(&[
        "find / -name core -exec rm {} +",
        "find /tmp/x | xargs rm",
        "find . -exec rm -rf {} +",
        "find / | grep x | xargs rm",
        "find / -exec ls {} +",
        "ls / | xargs echo",
        "mkfs.ext4 disk.img",
        "mkfs --help",
        "dd if=/dev/sda of=backup",
        "ls > /dev/null",
    ]);
}

#[test]
fn processes_are_never_multiplied_without_end() {
    blocked(
        "fork-bomb",
        &[
            ":(){ :|:& };:",
            ":() { : | : & } ; :",
            "bomb() { bomb | bomb & }; bomb",
            "f() { f & f; }; f",
            "function f { f | f; }; f",
        ],
    );
    not_blocked(&[
        "f() { g | g; }; f",
        "f() { g & }; f",
        "f() { echo; }; f | f",
        "sleep 1 & sleep 2",
    ]);
}

#[test]
fn not_every_process_is_ended() {
    blocked(
        "kill-everything",
        &["kill -9 -1", "kill -1", "kill -KILL -1", "kill -s TERM -1", "kill -- -1", "killall5 -9"],
    );
    not_blocked(&["kill -1 1234", "kill -9 1234", "kill -9 -1234", "kill -l", "kill %1"]);
}

#[test]
fn the_machine_stays_on() {
    blocked(
        "power-off",
        &[
            "shutdown",
            "shutdown -h now",
            "sudo reboot",
            "halt -p",
            "poweroff",
            "init 0",
            "init 6",
            "telinit 6",
            "systemctl poweroff",
            "systemctl --no-wall reboot",
            "systemctl isolate poweroff.target",
            "echo b > /proc/sysrq-trigger",
        ],
    );
    not_blocked(&[
        "shutdown -c",
        "shutdown --help",
        "init 3",
        "systemctl status reboot.target",
        "man shutdown",
        "which reboot",
        "command -v halt",
        "type poweroff",
    ]);
}

#[test]
fn what_happens_elsewhere_is_asked_about_and_not_blocked() {
    for command in ["ssh host reboot", "ssh -p 22 me@host 'rm -rf /'"] {
        let findings = examine(command, &path_context()).findings;
        assert_eq!(findings.first().map(|f| f.severity), Some(Risk::Dangerous), "{command}");
    }
}

#[test]
fn a_password_for_sudo_is_recognised() {
    for command in [
        "echo secret | sudo -S apt update",
        "sudo -S id <<< secret",
        "sudo -kS id <<EOF\nsecret\nEOF",
        "cat pw | sudo --stdin id",
    ] {
        let findings = examine(command, &path_context()).findings;
        assert!(
            findings.iter().any(|finding| finding.severity == Risk::BlockedOnHost),
            "{command}: {findings:?}"
        );
    }
    not_blocked(&["sudo apt update", "echo x | sudo tee /tmp/x"]);
}

#[test]
fn what_cannot_be_known_is_asked_about_and_not_blocked() {
    for command in ["rm -rf \"$DIR/\"", "rm -rf /$X", "$CMD -rf /", "$(curl x) -rf /"] {
        let findings = examine(command, &path_context()).findings;
        assert_eq!(findings.first().map(|f| f.severity), Some(Risk::Dangerous), "{command}");
    }
}
