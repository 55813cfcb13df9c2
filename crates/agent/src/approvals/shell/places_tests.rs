use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::testing::{path_context, unasked};
use super::*;

#[test]
fn a_write_outside_the_working_directory_is_asked_about() {
    let commands = [
        "cat f > ../.bashrc",
        "cat f > ../x",
        "cat f > sub/../../x",
        "cat f > /home/me/other/x",
        "cat f > ~/x",
        "cp f ../.bashrc",
        "cp f ..",
        "cp -t ~ .bashrc",
        "cp -t.. f",
        "cp --target-directory=.. f",
        "cp --target=.. f",
        "cp -rt .. f",
        "mv f ..",
        "mv ../f .",
        "ln f ../g",
        "ln ../f g",
        "ln -s ../f g",
        "rm ../f",
        "touch ../f",
        "mkdir ../d",
        "tee ../f",
        "tee -a f ../g",
        "truncate -s0 ../f",
        "chmod +x ../f",
        "chmod -x ../f",
        "sed -i s/a/b/ ../f",
        "sed -i../x/* s/a/b/ f",
        "sort -o ../.bashrc f",
        "sort -uo../x f",
        "sort --output=../x f",
        "sort -T .. f",
        "uniq f ../.bashrc",
        "shuf -o ../x f",
        "iconv -o ../x f",
        "iconv --output=../x f",
        "xxd f ../x",
        "tree -o ../x",
        "dos2unix ../f",
        "split f ../x",
        "gzip ../f",
        "zip ../a.zip f",
        "unzip a.zip -d ..",
        "unzip -d.. a.zip",
        "tar -C ~ -xf a",
        "tar -xC .. -f a",
        "tar xfC a ..",
        "tar -xf a -C..",
        "tar --directory=.. -xf a",
        "tar cf ../a.tar src",
        "rsync -a src/ ../dst",
        "patch -d .. -i p",
        "patch -o../x f p",
        "curl -so ~/.profile https://example.com",
        "curl -so../x https://example.com",
        "curl --output=../x https://example.com",
        "curl --output ../x https://example.com",
        "curl --output-dir .. -O https://example.com/x",
        "curl -O https://example.com/.bashrc",
        "curl -D ../x https://example.com",
        "curl -c ../x https://example.com",
        "wget -qO ~/.profile https://example.com",
        "wget -P .. https://example.com/x",
        "wget -o ../x https://example.com",
        "wget https://example.com/.bashrc",
        "git archive -o ../x HEAD",
        "git archive --output=../x HEAD",
        "git format-patch -o .. HEAD~1",
        "git clone https://example.com/x ../y",
        "git bundle create ../x HEAD",
        "gcc -o ../x a.c",
        "gcc -o../x a.c",
        "cargo build --target-dir ..",
        "cargo new ../x",
        "go build -o=../x",
        "tsc --outDir ..",
        "sqlite3 ../x.db 'select 1'",
        "python3 -m venv ../v",
        "python3 -m json.tool a ../b",
        "exec > ../x",
        "echo x &> ../x",
        "echo x >> ../x",
        "echo x <> ../x",
        "echo x >| ../x",
        "echo x 2> ../x",
    ];
    assert_eq!(unasked(&path_context(), &commands), [""; 0]);
}

#[test]
fn a_file_that_runs_or_is_read_later_is_asked_about_wherever_it_lies() {
    let commands = [
        "echo x > .bashrc",
        "echo x > sub/.profile",
        "echo x > .envrc",
        "echo x >> .env",
        "cp f .env.local",
        "cp f keys/id_ed25519",
        "mv f server.key",
        "echo x > .git/hooks/pre-commit",
        "echo x > .GIT/HOOKS/pre-commit",
        "echo x > sub/.git/config",
        "echo x > .git/info/attributes",
        "echo x > .husky/pre-commit",
        "echo x > .ssh/authorized_keys",
        "echo x > /tmp/x/.bashrc",
        "cp f .git/hooks",
        "mkdir -p .git/hooks",
        "mv f .envrc",
    ];
    assert_eq!(unasked(&path_context(), &commands), [""; 0]);
    let at_home = PathContext { dir: Some("~".to_owned()), ..path_context() };
    let commands = [
        "echo x > .config/nvim/init.lua",
        "echo x > .tmux.conf",
        "tar xf a.tar",
        "cp -r d/. .",
        "curl -O https://example.com/.profile",
        "echo x > .vestal/config.yaml",
    ];
    assert_eq!(unasked(&at_home, &commands), [""; 0]);
    assert_eq!(unasked(&at_home, &["echo x > notes.txt"]), ["echo x > notes.txt"]);
    let at_root = PathContext { dir: Some("/".to_owned()), ..path_context() };
    assert_eq!(unasked(&at_root, &["echo x > y", "echo x > srv/y"]), [""; 0]);
    let nowhere = PathContext { dir: None, ..path_context() };
    assert_eq!(unasked(&nowhere, &["echo x > y", "touch y"]), [""; 0]);
}

#[test]
fn a_target_that_is_not_known_is_asked_about() {
    let commands = [
        "echo x > $F",
        "echo x > \"$F\"",
        "echo x > a$F",
        "echo x > $(cat f)",
        "echo x > ${F:-y}",
        "echo x > ${F%.txt}",
        "D=.bash; echo x > ../${D}rc",
        "X=a; X+=/../../b; echo x > $X",
        "X=../b; (X=a); echo x > $X",
        "X=../b; X=a & echo x > $X",
        "X=a && true & echo x > $X",
        "X=a | true; echo x > $X",
        "false && X=a; echo x > $X",
        "if false; then X=a; fi; echo x > $X",
        "f() { X=../b; }; X=a; f; echo x > $X",
        "X=$(X=a); echo x > $X",
        "y=$(X=a); echo x > $X",
        "X=(../b); X[1]=a; echo x > $X",
        "trap 'X=../b' DEBUG; X=a; echo x > $X",
        "readonly X=../b; X=a; echo x > $X",
        "_=a; echo x > $_",
        "PWD=../..; echo x > $PWD/x",
        "X=a; sh -c 'echo x > $X/../b'",
        "IFS=:; X=f:../b; tee $X",
        "echo \"'../x'\" | xargs tee",
        "find . -name x | xargs touch",
        "read f < g; touch \"$f\"",
        "sort $X",
        "sort \"$X\" f",
        "sort a $X",
        "git log $X",
        "curl \"$URL\"",
        "touch {a,../b}",
        "touch ../{1..3}",
        "for f in ../*; do touch \"$f\"; done",
        "for f in *; do touch \"$f/../../x\"; done",
        "for f in *; do touch $f; done",
        "echo x > .*/f",
        "echo x > ~-/f",
        "echo x > ~1/f",
    ];
    assert_eq!(unasked(&path_context(), &commands), [""; 0]);
}

#[test]
fn a_change_of_directory_counts_as_far_as_it_is_certain() {
    let commands = [
        "cd ..; echo x > .bashrc",
        "cd .. && echo x > y",
        "cd ~; echo x > y",
        "cd; echo x > y",
        "cd -; echo x > y",
        "cd $X; echo x > y",
        "cd /srv && touch x",
        "pushd ..; touch x",
        "popd; touch x",
        "command cd ..; touch x",
        "eval 'cd ..'; touch x",
        "cd sub; touch ../x ../../y",
        "cd a/b; touch ../../x",
        "cd a/b && ls; touch ../../x",
        "cd a/b || ls; touch ../../x",
        "$(cd a/b/c); touch ../../x",
        "x=$(cd a/b/c); touch ../../x",
        "cd a/b/c | true; touch ../../x",
        "true | cd a/b/c; touch ../../x",
        "cd a/b/c & touch ../../x",
        "(cd a/b/c); touch ../../x",
        "sh -c 'cd a/b/c'; touch ../../x",
        "{ cd a/b/c; } | true; touch ../../x",
        "if false; then cd a/b/c; fi; touch ../../x",
        "cd a/b/c && for i in 1 2 3 4; do cd ..; done; touch x",
        "f() { cd ..; }; f; touch x",
        "cd -P a/..; touch x",
        "cd a b; touch ../x",
        "X=$PWD && cd a/b && touch $X/../../c",
        "CDPATH=/; cd etc; touch x",
        "shopt -s cdable_vars; cd X; touch y",
        "env -C .. touch x",
        "git -C .. clean -n > ../x",
    ];
    assert_eq!(unasked(&path_context(), &commands), [""; 0]);
    let commands = [
        "cd sub && touch x && cd .. && touch y",
        "cd a/b && touch ../x",
        "mkdir -p build && cd build && cmake .. && make 2>&1 | tee build.log",
        "(cd sub && touch x) && touch y",
        "D=out; mkdir -p $D; touch $D/x",
        "export D=out; mkdir -p $D",
        "T=$(mktemp -d); touch $T/x",
        "echo x > /tmp/y",
        "echo x > ~/project/y",
        "echo x > $HOME/project/y",
        "echo x > $PWD/y",
        "echo x > \"$(pwd)/y\"",
        "echo x > log-$(date +%F).txt",
        "touch file{1..10}.txt",
        "for f in *.txt; do cp \"$f\" \"out/${f##*/}\"; done",
        "for i in 1 2 3; do touch f$i; done",
        "echo x >> .git/info/exclude",
        "ls > /dev/null 2>&1",
    ];
    assert_eq!(unasked(&path_context(), &commands), commands);
}

#[test]
fn what_a_script_links_or_unpacks_is_not_written_through_unasked() {
    let commands = [
        "ln -s ~/.bashrc l; echo x > l",
        "ln -s ~/.bashrc l",
        "ln ~/.bashrc l",
        "ln -s . l; echo x > l/../y",
        "ln -s sub l && mv l m && echo x > m",
        "cp -s f l; echo x > l",
        "cp -a d e; echo x > e/l",
        "tar xf a.tar && echo x > l",
        "unzip a.zip; echo x > l",
        "git pull; echo x > l",
        "mv l m; echo x > m",
    ];
    assert_eq!(unasked(&path_context(), &commands), [""; 0]);
    let commands = ["git checkout -b x && echo x > l && git add l", "tar tf a.tar > list"];
    assert_eq!(unasked(&path_context(), &commands), commands);
}

/// Returns the context of a directory that exists.
fn seen(root: &Path) -> PathContext {
    let path_context = PathContext {
        user_home: Some(root.join("home").display().to_string()),
        ..PathContext::default()
    };
    path_context.in_dir(Some(root.join("home/project")), true)
}

#[test]
fn links_are_followed_where_the_files_can_be_seen() {
    let root = tempfile::tempdir().expect("temporary directory");
    // Below a directory for temporary files everything may be written, so names tell the rest.
    let home = root.path().join("home");
    let project = home.join("project");
    fs::create_dir_all(project.join("sub/deep")).expect("made");
    fs::create_dir_all(project.join("links")).expect("made");
    fs::create_dir_all(home.join(".config")).expect("made");
    fs::write(home.join(".bashrc"), "").expect("written");
    fs::write(project.join("plain"), "").expect("written");
    symlink(home.join(".bashrc"), project.join("file")).expect("linked");
    symlink(home.join(".config"), project.join("dir")).expect("linked");
    symlink("../../.bashrc", project.join("links/a.txt")).expect("linked");
    symlink(&home, project.join("up")).expect("linked");
    fs::hard_link(home.join(".bashrc"), project.join("hard")).expect("linked");
    let path_context = seen(root.path());
    let commands = [
        "echo x > file",
        "tee file",
        "touch dir/x",
        "cp plain dir",
        "echo x > dir/x",
        "echo x > up/.profile",
        "cd dir && echo x > y",
        "cd sub; echo x > ../dir/y",
        "echo x > hard",
        "for f in links/*.txt; do echo x > \"$f\"; done",
        "tee links/*",
        "mv file moved; echo x > moved",
        "git checkout plain",
    ];
    assert_eq!(unasked(&path_context, &commands), [""; 0]);
    let commands = [
        "echo x > plain",
        "rm file",
        "sed -i s/a/b/ sub/*.rs",
        "mv plain other; echo x > new",
        "cd sub/deep; make; cd ../..; echo x > y",
        "git checkout main",
        "rm -f *.txt",
    ];
    assert_eq!(unasked(&path_context, &commands), commands);
    fs::write(project.join("--checkpoint-action=exec=sh x"), "").expect("written");
    assert_eq!(unasked(&path_context, &["tar cf a.tar *", "rm -f *.txt", "cp * sub"]), [""; 0]);
    assert_eq!(unasked(&path_context, &["tar cf a.tar ./*"]), ["tar cf a.tar ./*"]);
}

#[test]
fn python_is_asked_about_where_a_file_stands_in_for_a_module_of_its_own() {
    let root = tempfile::tempdir().expect("temporary directory");
    let project = root.path().join("home/project");
    fs::create_dir_all(project.join("types")).expect("made");
    let path_context = seen(root.path());
    let commands = ["python3 -c 'import json'", "python3 -m json.tool f"];
    assert_eq!(unasked(&path_context, &commands), commands);
    fs::write(project.join("enum.py"), "").expect("written");
    assert_eq!(unasked(&path_context, &commands), [""; 0]);
    fs::remove_file(project.join("enum.py")).expect("removed");
    fs::write(project.join("types/__init__.py"), "").expect("written");
    assert_eq!(unasked(&path_context, &commands), [""; 0]);
    assert_eq!(unasked(&path_context, &["python3 -c 'print(1)'"]), ["python3 -c 'print(1)'"]);
}
