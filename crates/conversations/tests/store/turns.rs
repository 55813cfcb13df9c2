//! The file, and turns in it.

use vestal_conversations::{
    ConversationStore, Error, MessageKind, MessageStanding, NewMessage, ParentKind, Seq, Title,
    UndoneMessages,
};
use vestal_database::Error as FileError;
use vestal_model::Message;
use vestal_testkit::files::files;
use vestal_testkit::sqlite::execute;

use crate::{answer, begin, call, expected, fixture, numbers, result, seen, texts, user};

#[tokio::test]
async fn messages_are_there_when_the_file_is_opened_again() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.append(&id, &[user("a")]).await.unwrap();
    let path = fixture.path().to_owned();
    fixture.store.clone().close().await.unwrap();
    // All is in the one file once nobody uses it.
    assert_eq!(files(fixture.dir.path()).len(), 1);
    let again = ConversationStore::open(&path).await.unwrap();
    assert_eq!(seen(&again, &id).await, crate::expected(&[(1, "a")]));
}

#[tokio::test]
async fn looking_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home").join("state.db");
    assert!(ConversationStore::open_existing(&path).await.unwrap().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    ConversationStore::open(&path).await.unwrap();
    assert!(ConversationStore::open_existing(&path).await.unwrap().is_some());
}

#[tokio::test]
async fn a_database_of_something_else_is_refused_and_not_touched() {
    for text in [
        "CREATE TABLE sessions (id TEXT)",
        "CREATE TABLE sessions (id TEXT); PRAGMA user_version = 22",
        "PRAGMA user_version = 1; PRAGMA application_id = 5",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        execute(&path, text).await;
        let before = files(dir.path());
        let opened = ConversationStore::open(&path).await;
        assert!(
            matches!(opened, Err(Error::Database(FileError::Foreign { .. }))),
            "{text}: {opened:?}"
        );
        assert_eq!(files(dir.path()), before);
    }
}

#[tokio::test]
async fn undone_turns_stay_undone_when_the_file_is_opened_again() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let turns = [user("a"), answer("b"), user("c"), call("terminal"), result("d"), answer("e")];
    fixture.append(&id, &turns).await.unwrap();
    assert_eq!(fixture.undo(&id, 1).await.unwrap(), UndoneMessages { turns: 1, messages: 4 });

    let again = vestal_conversations::ConversationStore::open(fixture.path()).await.unwrap();
    assert_eq!(seen(&again, &id).await, expected(&[(1, "a"), (2, "b")]));
    let summary = again.summary(&id).await.unwrap();
    assert_eq!((summary.messages, summary.tool_calls), (2, 0));
    let history = again.history(&id).await.unwrap();
    let undone: Vec<bool> =
        history.iter().map(|stored| stored.standing == MessageStanding::Undone).collect();
    assert_eq!(undone, [false, false, true, true, true, true]);

    // What is said now takes new numbers, and can be undone in its turn.
    assert_eq!(numbers(&again.append(&id, &[user("f")]).await.unwrap()), [7]);
    assert_eq!(again.undo(&id, 5).await.unwrap(), UndoneMessages { turns: 2, messages: 3 });
    assert_eq!(again.undo(&id, 1).await.unwrap(), UndoneMessages::default());
    assert_eq!(seen(&again, &id).await, expected(&[]));
    assert_eq!(again.undo(&id, 0).await.unwrap(), UndoneMessages::default());
}

#[tokio::test]
async fn a_list_shows_no_beginning_that_was_taken_back() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.append(&id, &[user("first"), answer("b"), user("second")]).await.unwrap();
    let preview = async || fixture.summary(&id).await.unwrap().preview;
    fixture.undo(&id, 1).await.unwrap();
    assert_eq!(preview().await, "first");
    fixture.undo(&id, 1).await.unwrap();
    assert_eq!(preview().await, "");
    fixture.append(&id, &[user("another way")]).await.unwrap();
    assert_eq!(preview().await, "another way");
    // What a summary stands for was not taken back.
    fixture.compact(&id, Seq(4), &[user("sum")]).await.unwrap();
    fixture.append(&id, &[user("more")]).await.unwrap();
    fixture.undo(&id, 5).await.unwrap();
    assert_eq!(preview().await, "another way");
}

#[tokio::test]
async fn what_the_program_puts_in_begins_no_turn() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let note = NewMessage::note(Message::user("go on"));
    fixture.append(&id, &[user("a"), answer("b"), note, answer("c")]).await.unwrap();
    assert_eq!(fixture.undo(&id, 1).await.unwrap(), UndoneMessages { turns: 1, messages: 4 });
}

#[tokio::test]
async fn a_summary_stands_where_what_it_stands_for_stood() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let dialogue = [user("a"), answer("b"), user("c"), answer("d")];
    fixture.append(&id, &dialogue).await.unwrap();
    let summary = [user("they said a and b"), answer("noted")];
    assert_eq!(numbers(&fixture.compact(&id, Seq(2), &summary).await.unwrap()), [5, 6]);
    fixture.append(&id, &[user("e")]).await.unwrap();
    let view = [(5, "they said a and b"), (6, "noted"), (3, "c"), (4, "d"), (7, "e")];
    assert_eq!(seen(&fixture, &id).await, expected(&view));

    // Nothing is gone, and all of it is found.
    let history = fixture.history(&id).await.unwrap();
    let all =
        [(1, "a"), (2, "b"), (5, "they said a and b"), (6, "noted"), (3, "c"), (4, "d"), (7, "e")];
    assert_eq!(texts(&history), expected(&all));
    assert_eq!(history[0].standing, MessageStanding::Compacted);
    assert_eq!(history[2].kind, MessageKind::Summary);
    assert_eq!(
        fixture.search(&vestal_conversations::SearchScope::default(), "a", 10).await.unwrap().len(),
        2
    );
    assert_eq!(fixture.summary(&id).await.unwrap().messages, 5);

    // A summary can be summed up itself, and begins no turn.
    let again = fixture.compact(&id, Seq(6), &[user("it began")]).await.unwrap();
    assert_eq!(numbers(&again), [8]);
    let view = [(8, "it began"), (3, "c"), (4, "d"), (7, "e")];
    assert_eq!(seen(&fixture, &id).await, expected(&view));
    assert_eq!(fixture.undo(&id, 9).await.unwrap(), UndoneMessages { turns: 2, messages: 3 });
    assert_eq!(seen(&fixture, &id).await, expected(&[(8, "it began")]));
}

#[tokio::test]
async fn only_what_the_model_sees_can_be_summed_up() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.append(&id, &[user("a"), user("b"), user("c")]).await.unwrap();
    assert!(matches!(fixture.compact(&id, Seq(1), &[]).await, Err(Error::NoSummary)));
    fixture.compact(&id, Seq(1), &[user("s")]).await.unwrap();
    fixture.undo(&id, 1).await.unwrap();
    for seq in [0, 1, 3, 9] {
        let refused = fixture.compact(&id, Seq(seq), &[user("t")]).await;
        assert!(matches!(refused, Err(Error::NoMessage { .. })), "{seq}: {refused:?}");
    }
    assert_eq!(seen(&fixture, &id).await, expected(&[(4, "s"), (2, "b")]));
}

#[tokio::test]
async fn a_branch_goes_its_own_way_from_where_it_began() {
    let fixture = fixture().await;
    let id = crate::titled(&fixture, "plan").await.id;
    fixture.set_system_prompt(&id, "be kind").await.unwrap();
    fixture.set_state(&id, "session", Some(&"mine".into())).await.unwrap();
    let usage = Some(vestal_model::TokenUsage { input: 9, ..Default::default() });
    let spent = NewMessage { usage, ..answer("b") };
    fixture.append(&id, &[user("a"), spent, user("c"), call("terminal")]).await.unwrap();

    let branch = fixture.branch(&id, Some(Seq(2)), None).await.unwrap();
    assert_eq!(branch.title.as_deref(), Some("plan (2)"));
    let parent = branch.parent.clone().unwrap();
    assert_eq!((parent.kind, parent.id.as_ref()), (ParentKind::Branch, Some(&id)));
    assert_eq!((branch.source.as_str(), branch.model.as_str()), ("cli", "large"));
    assert_eq!(fixture.system_prompt(&branch.id).await.unwrap(), "be kind");
    assert_eq!(fixture.state(&branch.id, "session").await.unwrap(), None);
    fixture.append(&branch.id, &[user("other")]).await.unwrap();
    assert_eq!(seen(&fixture, &branch.id).await, expected(&[(1, "a"), (2, "b"), (3, "other")]));
    assert_eq!(fixture.messages(&id).await.unwrap().len(), 4);

    // What was spent is counted once.
    let summary = fixture.summary(&branch.id).await.unwrap();
    assert_eq!((summary.totals.calls, summary.messages, summary.tool_calls), (0, 3, 0));
    assert_eq!(summary.preview, "a");

    let title = Some(Title::Given("other plan".to_owned()));
    let whole = fixture.branch(&id, None, title).await.unwrap();
    assert_eq!(whole.title.as_deref(), Some("other plan"));
    assert_eq!(fixture.summary(&whole.id).await.unwrap().tool_calls, 1);
    let missing = fixture.branch(&id, Some(Seq(7)), None).await;
    assert!(matches!(missing, Err(Error::NoMessage { .. })));
}

#[tokio::test]
async fn a_branch_is_made_with_all_it_should_remember_or_not_at_all() {
    let fixture = fixture().await;
    let id = crate::titled(&fixture, "plan").await.id;
    fixture.append(&id, &[user("a")]).await.unwrap();
    fixture.set_state(&id, "notes", Some(&"all of them".into())).await.unwrap();
    fixture.set_state(&id, "works_in", Some(&"there".into())).await.unwrap();
    let here = serde_json::Value::from("here");
    let own = [("works_in", &here)];
    let branch = fixture.branch_with_state(&id, None, &own).await.unwrap();
    assert_eq!(branch.title.as_deref(), Some("plan (2)"));
    assert_eq!(seen(&fixture, &branch.id).await, expected(&[(1, "a")]));
    let state = async |name| fixture.state(&branch.id, name).await.unwrap();
    assert_eq!(state("notes").await, Some("all of them".into()));
    assert_eq!(state("works_in").await, Some(here.clone()));
    assert_eq!(fixture.state(&id, "works_in").await.unwrap(), Some("there".into()));
    let taken = Some(Title::Given("plan".to_owned()));
    let refused = fixture.branch_with_state(&id, taken, &own).await;
    assert!(matches!(refused, Err(Error::TitleTaken { .. })), "{refused:?}");
    assert_eq!(
        fixture.list(&vestal_conversations::ConversationFilter::default()).await.unwrap().len(),
        2
    );
}

#[tokio::test]
async fn a_branch_can_go_back_to_before_a_summary() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let dialogue: Vec<_> = ["a", "b", "c", "d", "e"].map(user).into();
    fixture.append(&id, &dialogue).await.unwrap();
    fixture.compact(&id, Seq(2), &[user("ab")]).await.unwrap();
    fixture.compact(&id, Seq(4), &[user("abcd")]).await.unwrap();
    let view = async |at| {
        let branch = fixture.branch(&id, Some(Seq(at)), None).await.unwrap();
        seen(&fixture, &branch.id).await
    };
    assert_eq!(view(1).await, expected(&[(1, "a")]));
    assert_eq!(view(2).await, expected(&[(1, "a"), (2, "b")]));
    assert_eq!(view(6).await, expected(&[(6, "ab")]));
    assert_eq!(view(3).await, expected(&[(6, "ab"), (3, "c")]));
    assert_eq!(view(7).await, expected(&[(7, "abcd")]));
    assert_eq!(view(5).await, expected(&[(7, "abcd"), (5, "e")]));
}

#[tokio::test]
async fn a_stretch_of_the_history_is_read_by_its_numbers_whatever_became_of_it() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let dialogue = [user("a"), answer("b"), user("c"), answer("d"), user("e")];
    let seqs = fixture.append(&id, &dialogue).await.unwrap();
    fixture.compact(&id, seqs[3], &[user("sum")]).await.unwrap();
    let stretch = fixture.history_between(&id, seqs[1], seqs[4]).await.unwrap();
    let words = [(2, "b"), (3, "c"), (4, "d"), (5, "e")];
    assert_eq!(texts(&stretch), expected(&words));
    assert_eq!(fixture.history_between(&id, Seq(77), Seq(99)).await.unwrap(), []);
    assert_eq!(fixture.history_between(&id, Seq(3), Seq(1)).await.unwrap(), []);
}
