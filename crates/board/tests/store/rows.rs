//! Tasks, links, comments, notes and attachments come out as they went in.

use vestal_board::testing::{BEGINNING, task};
use vestal_board::{Attachment, Error, HostName, Status, Task, TaskWorkspace};

use crate::{add, add_all, change, full, get, place};

#[tokio::test]
async fn a_task_comes_out_as_it_went_in() {
    let place = place().await;
    let tasks = [task("plain"), full("full")];
    for (number, new) in tasks.into_iter().enumerate() {
        add(&place, &new).await;
        let seq = i64::try_from(number).unwrap() + 1;
        assert_eq!(get(&place, &new.id).await, Some(Task { seq, ..new }));
    }
    assert_eq!(get(&place, &task("another").id).await, None);
}

#[tokio::test]
async fn every_part_of_a_task_can_be_changed_to_any_other() {
    let place = place().await;
    let plain = task("plain");
    add(&place, &plain).await;
    let full = Task { id: plain.id.clone(), seq: 1, created_at: BEGINNING, ..full("full") };
    change(&place, &Task { seq: 1, ..plain.clone() }, &full).await;
    assert_eq!(get(&place, &plain.id).await, Some(full.clone()));
    let plain = Task { seq: 1, ..plain };
    change(&place, &full, &plain).await;
    assert_eq!(get(&place, &plain.id).await, Some(plain.clone()));
    // Nothing to change is not an error.
    change(&place, &plain, &plain).await;
}

#[tokio::test]
async fn every_status_is_stored() {
    let place = place().await;
    for status in Status::ALL.iter().copied() {
        let new = Task { status, ..task(status.as_str()) };
        add(&place, &new).await;
        assert_eq!(get(&place, &new.id).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn tasks_of_a_batch_keep_their_order() {
    let place = place().await;
    let tasks: Vec<Task> = (0..333).map(|number| task(&format!("task {number}"))).collect();
    add_all(&place, &tasks).await;
    for (number, new) in tasks.iter().enumerate() {
        let found = get(&place, &new.id).await.unwrap();
        assert_eq!(found, Task { seq: i64::try_from(number).unwrap() + 1, ..new.clone() });
    }
    add_all(&place, &[]).await;
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_and_nothing_of_the_batch_is_kept() {
    let place = place().await;
    let first = task("first");
    add(&place, &first).await;
    let mut write = place.write().await.unwrap();
    let twin = Task { title: "twin".to_owned(), ..first.clone() };
    let other = task("other");
    write.insert_tasks(&[other.clone(), twin]).await.unwrap();
    let refused = write.commit().await;
    assert!(matches!(refused, Err(Error::Database(_))), "{refused:?}");
    assert_eq!(get(&place, &other.id).await, None);
    assert_eq!(get(&place, &first.id).await.unwrap().title, "first");
}

#[tokio::test]
async fn a_change_to_a_task_that_is_gone_is_refused() {
    let place = place().await;
    let ghost = task("ghost");
    let mut write = place.write().await.unwrap();
    let after = Task { title: "risen".to_owned(), ..ghost.clone() };
    let refused = write.update_task(&ghost, &after).await;
    assert!(matches!(refused, Err(Error::Unreadable { .. })), "{refused:?}");
    drop(write);
    let mut write = place.write().await.unwrap();
    let refused = write.delete_task(&ghost).await;
    assert!(matches!(refused, Err(Error::Unreadable { .. })), "{refused:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_that_is_not_named_in_utf_8_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let place = place().await;
    let path = OsStr::from_bytes(b"/srv/\xff").into();
    let new = Task { workspace: TaskWorkspace::Dir { path }, ..task("odd") };
    let refused = place.write().await.unwrap().insert_tasks(&[new]).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
}

#[tokio::test]
async fn one_task_that_is_not_archived_has_a_key() {
    let place = place().await;
    let keyed = |title: &str| Task { idempotency_key: Some("k".to_owned()), ..task(title) };
    let first = keyed("first");
    add(&place, &first).await;
    let mut read = place.read().await.unwrap();
    assert_eq!(read.task_with_key("k").await.unwrap().unwrap().id, first.id);
    assert_eq!(read.task_with_key("K").await.unwrap(), None);
    drop(read);

    let second = keyed("second");
    let mut write = place.write().await.unwrap();
    write.insert_tasks(std::slice::from_ref(&second)).await.unwrap();
    let refused = write.commit().await;
    assert!(matches!(refused, Err(Error::Database(_))), "{refused:?}");

    change(&place, &first, &Task { status: Status::Archived, ..first.clone() }).await;
    assert_eq!(place.read().await.unwrap().task_with_key("k").await.unwrap(), None);
    add(&place, &second).await;
    let found = place.read().await.unwrap().task_with_key("k").await.unwrap();
    assert_eq!(found.unwrap().id, second.id);
}

#[tokio::test]
async fn names_are_found_by_their_beginning() {
    let place = place().await;
    let named = |id: &str| Task { id: id.parse().unwrap(), ..task("named") };
    let tasks = ["t_aaaa00000000", "t_aaaazzzzzzzz", "t_aaab00000000"].map(named);
    add_all(&place, &tasks).await;
    let mut read = place.read().await.unwrap();
    let mut names = async |prefix: &str, limit| -> Vec<String> {
        let names = read.names_like(prefix, limit).await.unwrap();
        names.iter().map(ToString::to_string).collect()
    };
    assert_eq!(names("t_aaaa", 9).await, ["t_aaaa00000000", "t_aaaazzzzzzzz"]);
    assert_eq!(names("t_", 2).await, ["t_aaaa00000000", "t_aaaazzzzzzzz"]);
    assert_eq!(names("t_aaab00000000", 9).await, ["t_aaab00000000"]);
    for odd in ["t_b", "", "%", "t_%", "' OR 1=1", "t_aaaa00000000000"] {
        assert_eq!(names(odd, 9).await, [""; 0], "{odd}");
    }
}

#[tokio::test]
async fn links_are_kept_once_and_followed_both_ways() {
    let place = place().await;
    let [a, b, c] = ["a", "b", "c"].map(task);
    add_all(&place, &[a.clone(), b.clone(), c.clone()]).await;
    let mut write = place.write().await.unwrap();
    assert!(write.link(&a.id, &b.id).await.unwrap());
    assert!(!write.link(&a.id, &b.id).await.unwrap());
    assert!(write.link(&b.id, &c.id).await.unwrap());
    assert!(write.link(&a.id, &c.id).await.unwrap());
    write.commit().await.unwrap();

    let mut read = place.read().await.unwrap();
    let names = |list: Vec<vestal_board::store::Relative>| -> Vec<String> {
        list.into_iter().map(|relative| relative.title).collect()
    };
    assert_eq!(names(read.parents(&c.id).await.unwrap()), ["a", "b"]);
    assert_eq!(names(read.children(&a.id).await.unwrap()), ["b", "c"]);
    assert_eq!(names(read.children(&c.id).await.unwrap()), [""; 0]);
    for (from, to, expected) in
        [(&c, &a, true), (&c, &b, true), (&c, &c, true), (&a, &c, false), (&a, &b, false)]
    {
        let reached = read.waits_for(&from.id, &to.id).await.unwrap();
        assert_eq!(reached, expected, "{} {}", from.title, to.title);
    }
    drop(read);

    let mut write = place.write().await.unwrap();
    assert!(write.unlink(&b.id, &c.id).await.unwrap());
    assert!(!write.unlink(&b.id, &c.id).await.unwrap());
    assert!(!write.waits_for(&c.id, &b.id).await.unwrap());
    // A task cannot wait for itself, nor for one that is not there.
    assert!(write.link(&a.id, &a.id).await.is_err());
    assert!(write.link(&a.id, &task("ghost").id).await.is_err());
}

#[tokio::test]
async fn a_chain_of_thousands_is_followed() {
    let place = place().await;
    let tasks: Vec<Task> = (0..3_000).map(|number| task(&number.to_string())).collect();
    let mut write = place.write().await.unwrap();
    write.insert_tasks(&tasks).await.unwrap();
    for pair in tasks.windows(2) {
        write.link(&pair[0].id, &pair[1].id).await.unwrap();
    }
    assert!(write.waits_for(&tasks[2_999].id, &tasks[0].id).await.unwrap());
    assert!(!write.waits_for(&tasks[0].id, &tasks[2_999].id).await.unwrap());
}

#[tokio::test]
async fn the_last_comments_are_read_oldest_first() {
    let place = place().await;
    let talk = task("talk");
    add(&place, &talk).await;
    let mut numbers = Vec::new();
    for text in ["one", "two", "three"] {
        place.advance(std::time::Duration::from_secs(1));
        let mut write = place.write().await.unwrap();
        numbers.push(write.comment(&talk.id, "ada", text).await.unwrap());
        write.commit().await.unwrap();
    }
    let comments = place.read().await.unwrap().comments(&talk.id, 2).await.unwrap();
    let seen: Vec<_> = comments
        .iter()
        .map(|printed| (printed.id, printed.body.as_str(), printed.created_at))
        .collect();
    let second = |number| BEGINNING.after(std::time::Duration::from_secs(number));
    assert_eq!(seen, [(numbers[1], "two", second(2)), (numbers[2], "three", second(3))]);
    assert_eq!(comments[0].author, "ada");
}

#[tokio::test]
async fn notes_are_kept_until_they_are_taken_away() {
    let place = place().await;
    let value = serde_json::json!({"name": "Ünï", "numbers": [1, 2.5, null]});
    for (new, expected) in [(Some(&value), Some(&value)), (None, None)] {
        let mut write = place.write().await.unwrap();
        write.set_note("other", Some(&true.into())).await.unwrap();
        write.set_note("about", Some(&"before".into())).await.unwrap();
        write.set_note("about", new).await.unwrap();
        write.commit().await.unwrap();
        let mut read = place.read().await.unwrap();
        assert_eq!(read.note("about").await.unwrap().as_ref(), expected);
        assert_eq!(read.note("other").await.unwrap(), Some(true.into()));
    }
}

#[tokio::test]
async fn attachments_are_listed_by_task_and_their_numbers_never_come_back() {
    let place = place().await;
    let owner = task("owner");
    add(&place, &owner).await;
    let mut file = Attachment {
        id: 0,
        task_id: owner.id.clone(),
        filename: "plan.txt".to_owned(),
        stored_as: "abc/plan.txt".to_owned(),
        host: HostName::new("here"),
        content_type: Some("text/plain".to_owned()),
        size: 7,
        uploaded_by: "ada".to_owned(),
        created_at: BEGINNING,
    };
    let mut write = place.write().await.unwrap();
    file.id = write.add_attachment(&file).await.unwrap();
    assert_eq!(write.attachment(file.id).await.unwrap(), Some(file.clone()));
    assert_eq!(write.attachments(&owner.id).await.unwrap(), std::slice::from_ref(&file));
    assert_eq!(write.stored_files().await.unwrap(), ["abc/plan.txt"]);
    write.remove_attachment(file.id).await.unwrap();
    assert_eq!(write.attachment(file.id).await.unwrap(), None);
    assert!(write.add_attachment(&file).await.unwrap() > file.id);
    write.commit().await.unwrap();
}

#[tokio::test]
async fn a_deleted_task_takes_all_that_hangs_on_it_along() {
    let place = place().await;
    let [kept, lost] = ["kept", "lost"].map(task);
    let mut write = place.write().await.unwrap();
    write.insert_tasks(&[kept.clone(), lost.clone()]).await.unwrap();
    write.link(&kept.id, &lost.id).await.unwrap();
    write.comment(&lost.id, "ada", "well").await.unwrap();
    let run = write.insert_run(&vestal_board::testing::run(&lost.id)).await.unwrap();
    write.count_failure(&lost.id, vestal_board::Outcome::Crashed, "bang").await.unwrap();
    let event = vestal_board::NewTaskEvent {
        task: lost.id.clone(),
        run: Some(run),
        kind: vestal_board::Kind::Created,
        payload: serde_json::json!({}),
    };
    write.add_events(std::slice::from_ref(&event)).await.unwrap();
    write.commit().await.unwrap();

    let mut write = place.write().await.unwrap();
    // Pending reports about it do not block it.
    write.add_events(std::slice::from_ref(&event)).await.unwrap();
    write.delete_task(&lost).await.unwrap();
    write.commit().await.unwrap();

    let mut read = place.read().await.unwrap();
    assert_eq!(read.task(&lost.id).await.unwrap(), None);
    assert_eq!(read.children(&kept.id).await.unwrap(), []);
    assert_eq!(read.comments(&lost.id, 9).await.unwrap(), []);
    assert_eq!(read.events(&lost.id, 9).await.unwrap(), []);
    assert_eq!(read.runs(&lost.id, 9).await.unwrap(), []);
    assert_eq!(read.failures(&lost.id).await.unwrap(), []);
    assert_eq!(read.lanes().await.unwrap()[0].queued, 1);
}
