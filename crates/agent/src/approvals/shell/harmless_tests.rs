use super::*;

fn ground() -> Ground {
    Ground {
        user_home: Some("/home/me".to_owned()),
        vestal_home: Some("/home/me/.vestal".to_owned()),
        mounts: None,
    }
}

#[track_caller]
fn unasked(commands: &[&str]) {
    for command in commands {
        let findings = examine(command, &ground()).findings;
        assert_eq!(findings, [], "{command:?}");
    }
}

#[test]
fn words_about_danger_are_not_danger() {
    unasked(&[
        "echo \"rm -rf /\"",
        "echo 'shutdown -h now'",
        "echo rm -rf /",
        "grep 'shutdown' log",
        "grep -rn \"rm -rf\" .",
        "git commit -m \"mkfs\"",
        "git commit -m 'remove rm -rf / and git push --force'",
        "ls # rm -rf /",
        "# rm -rf /\nls",
        "cat <<'EOF'\nrm -rf /\nEOF",
        "cat > notes.txt <<EOF\nrm -rf /\nshutdown now\nEOF",
        "printf '%s\\n' 'kill -9 -1'",
        "man rm",
        "which mkfs.ext4",
        "X='rm -rf /'",
        "case $1 in shutdown) echo x;; rm|reboot) echo y;; esac",
        "case \"$x\" in\n  (halt)\n    echo 1 ;;\n  *) echo 2\nesac",
        "[[ $x > /etc/passwd ]]",
        "[[ $cmd == shutdown || $cmd == reboot ]] && echo yes",
        "echo $((1 > 0))",
        "((i > 3)) && echo big",
        "shutdown_hook() { echo bye; }",
        "sed -n 's/rm -rf/x/p' file",
        "awk '{ print $1 > \"/tmp/out\" }' file",
        "git log --grep='DROP TABLE'",
        "git commit -m \"$(cat <<'EOF'\nDon't rm -rf / (ever); it's `bad`\nEOF\n)\"",
        "gh pr create --body \"$(cat <<'EOF'\n## Why\n- it's (so) and \"thus\"\nEOF\n)\"",
    ]);
}

#[test]
fn everyday_work_is_not_asked_about() {
    unasked(&[
        "rm file.txt",
        "rm -f a b c",
        "rm build/*.o",
        "ls -la /etc",
        "cat /etc/hosts",
        "cat ~/.ssh/config",
        "cp /etc/hosts .",
        "mkdir -p a/{b,c}",
        "git status && git add -A && git commit -m x",
        "git push origin main",
        "git push -u origin HEAD",
        "git branch -d done",
        "git reset HEAD~1",
        "git clean -n",
        "git checkout -b x",
        "cargo test 2>&1 | tail -50",
        "npm install && npm run build",
        "python3 -c 'print(open(\"a.txt\").read())'",
        "python3 -c 'import json,sys; print(json.load(sys.stdin)[\"a\"])' < x.json",
        "python3 script.py --clean",
        "python3 - <<'EOF'\nprint(1)\nEOF",
        "node -e 'console.log(1)'",
        "curl -s https://example.com/x.json | jq .",
        "curl -s https://example.com | python3 -m json.tool",
        "curl -o x.tar.gz https://example.com/x.tar.gz && tar xzf x.tar.gz",
        "wget https://example.com/data.csv",
        "chmod +x run.sh && ./run.sh",
        "chmod 755 x",
        "chmod -R u+w .",
        "find . -name '*.rs' -exec grep -l foo {} +",
        "find . -type f | xargs wc -l",
        "docker ps -a",
        "docker build -t x .",
        "docker run --rm -it alpine sh",
        "docker logs stop",
        "kubectl get pods",
        "psql -c 'select 1'",
        "psql -c \"delete from t where id = 1\"",
        "systemctl status nginx",
        "kill 1234",
        "pkill -f my-dev-server",
        "sudo apt-get install -y jq",
        "echo x > out.txt 2>/dev/null",
        "echo x >&2",
        "cmd > /tmp/log 2>&1 < /dev/null &",
        "tee /tmp/x < y",
        "vestal ps",
        "vestal run -- ls",
        "crontab -l",
        "$PYTHON -m pytest",
        "\"$BIN\" --help",
        "for f in *.txt; do echo \"$f\"; done",
        "while read -r line; do echo \"$line\"; done < file",
        "if [ -f x ]; then cat x; fi",
        "bash script.sh",
        "bash -c 'echo hi'",
        "sh -c \"cd /tmp && ls\"",
        "export PATH=$PATH:/opt/bin; make",
        "source venv/bin/activate && pip install -r requirements.txt",
        "eval \"$(ssh-agent -s)\"",
        "diff <(sort a) <(sort b)",
        "x=$(date +%s); echo $x",
        "arr=(a b c); echo ${arr[0]} ${#arr[@]}",
        "echo ${x//a/b} ${x%.txt} ${x^^}",
        "echo 'unicode: äöü 日本語；「」'",
        "ls *.{rs,toml}",
        "time cargo build",
        "ssh host uptime",
        "",
        "   ",
        "\n\n",
    ]);
}

#[test]
fn a_very_long_command_that_can_be_read_is_not_asked_about() {
    let words = "word ".repeat(27_000);
    unasked(&[
        &format!("echo {words}"),
        &format!("echo '{words}'"),
        &format!(
            "cat > f <<'EOF'\n{}EOF",
            "a line of text (with \"quotes' and `ticks\n".repeat(4000)
        ),
        &format!("echo {}", "x".repeat(135_000)),
    ]);
}
