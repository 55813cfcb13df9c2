use super::*;

fn launch(command: LaunchCommand) -> Launch {
    Launch {
        command,
        session: Some(SavedSession::default()),
        save: true,
        env: Vec::new(),
        job_env: Vec::new(),
        cwd: b"/".to_vec(),
        pty: false,
    }
}

#[test]
fn a_program_runs_in_a_session_of_a_system_without_a_shell() {
    let words = [&b"/bin/cat"[..], b"f"].map(|word| word.to_vec().into());
    let argv = launch(LaunchCommand::Argv(words.to_vec()));
    let missing = Shell::at("/nowhere/sh".into());
    let direct = prepare_invocation(&argv, Some(&missing)).unwrap();
    assert_eq!(direct.program.argv, [c"/bin/cat".to_owned(), c"f".to_owned()]);
    assert!(direct.dump.is_none(), "there is no shell to save a state");
    // Text needs a shell; its absence is reported when it is started.
    let text = launch(LaunchCommand::Shell(b"true".to_vec()));
    let plan = prepare_invocation(&text, Some(&missing)).unwrap();
    assert_eq!(plan.program.candidates, [c"/nowhere/sh".to_owned()]);
}

#[test]
fn a_name_with_a_slash_is_taken_as_it_is() {
    assert_eq!(candidates(Some(b"/bin"), b"./run"), vec![b"./run".to_vec()]);
}

#[test]
fn an_empty_entry_means_the_current_directory() {
    let wanted = vec![b"/a/x".to_vec(), b"./x".to_vec(), b"/b/x".to_vec()];
    assert_eq!(candidates(Some(b"/a::/b"), b"x"), wanted);
}

#[test]
fn a_shell_is_found_without_a_path() {
    assert!(is_program(&shell(None, None).path));
    assert!(is_program(&shell(None, Some(b"relative:/nowhere")).path));
}
