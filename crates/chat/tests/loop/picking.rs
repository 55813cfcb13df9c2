//! Lists that open while somebody types, and lists to choose from.

use vestal_scripted_model::Script;
use vestal_tui::{KeyCode, KeyPress, Size, TerminalInput};

use crate::commands::{hears, rests, seen, shell};
use crate::fixture::ChatFixture;

fn key(code: KeyCode) -> KeyPress {
    KeyPress::plain(code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_chosen_by_a_few_letters_of_it() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            hears(&person, "mend the roof").await;
            person.submits("/new");
            person.sees("a new conversation in the same sandbox").await;
            hears(&person, "paint the door").await;
            person.submits("/new");
            hears(&person, "sweep").await;
            person.submits("/resume");
            person.sees("› paint the door").await;
            person.types("roof mend");
            person.sees("› mend the roof").await;
            person.sees_no("paint the door  ").await;
            person.presses(key(KeyCode::Enter));
            person.sees_no("Enter chooses").await;
            hears(&person, "again").await;
            assert_eq!(seen(&fixture), ["mend the roof", "again"]);
            // Nothing that fits is nothing chosen, and what was typed is no message.
            person.submits("/resume");
            person.sees("Enter chooses").await;
            person.types("zzz");
            person.sees("no match").await;
            person.presses(key(KeyCode::Enter));
            person.presses(key(KeyCode::Escape));
            person.sees("nothing chosen").await;
            person
                .sees_that("an empty input", |rows| rows.iter().any(|row| row.trim_end() == "›"))
                .await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_tiny_terminal_a_list_has_numbers() {
    let mut fixture = ChatFixture::new(shell());
    fixture.size = Size { columns: 60, rows: 8 };
    fixture
        .play(async |person| {
            hears(&person, "one").await;
            person.submits("/new");
            hears(&person, "two").await;
            person.submits("/resume");
            person.sees("[1] one").await;
            person.submits("1");
            hears(&person, "three").await;
            assert_eq!(seen(&fixture), ["one", "three"]);
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_escape_goes_back_to_an_earlier_message() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            person.presses(key(KeyCode::Escape));
            for words in ["first", "second", "third"] {
                hears(&person, words).await;
            }
            person.presses(key(KeyCode::Escape));
            person.sees("press Esc again to go back to an earlier message").await;
            person.presses(key(KeyCode::Escape));
            person.sees("› third").await;
            person.presses(key(KeyCode::Down));
            person
                .sees_that("the second one marked", |rows| {
                    rows.iter().any(|row| row.trim_end() == "› second")
                        && rows.iter().any(|row| row.trim_end() == "  third")
                })
                .await;
            person.presses(key(KeyCode::Enter));
            person.sees("undid 2 turns").await;
            person.types(" and better");
            person.presses(key(KeyCode::Enter));
            person.sees("heard second and better").await;
            rests(&person).await;
            assert_eq!(seen(&fixture), ["first", "second and better"]);
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_escape_clears_the_input_and_up_brings_it_back() {
    let fixture = ChatFixture::new(Script::new());
    fixture
        .play(async |person| {
            person.types("a long thought");
            person.presses(key(KeyCode::Escape));
            person.sees("press Esc again to clear the input").await;
            // Another key in between: the next one is a first one again.
            person.types("s");
            person.presses(key(KeyCode::Escape));
            person.sees("› a long thoughts").await;
            person.presses(key(KeyCode::Escape));
            person.sees_no("a long thoughts").await;
            person.presses(key(KeyCode::Up));
            person.sees("› a long thoughts").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrows_move_in_the_list_of_commands() {
    let fixture = ChatFixture::new(Script::new());
    fixture
        .play(async |person| {
            person.types("/");
            person.sees("› /new").await;
            person.presses(key(KeyCode::Down));
            person.sees("› /resume").await;
            person.presses(key(KeyCode::Down));
            person.sees("› /sessions").await;
            person.presses(key(KeyCode::Up));
            person.presses(key(KeyCode::Tab));
            person.sees("› /sessions").await;
            person.presses(key(KeyCode::Enter));
            person.sees_no("› /sessions  ").await;
            person
                .sees_that("it is written", |rows| {
                    rows.iter().any(|row| row.trim_end() == "› /sessions")
                })
                .await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_offered_while_a_mention_is_typed() {
    let fixture = ChatFixture::new(shell());
    // Of the directory of this package, in which tests run.
    fixture
        .play(async |person| {
            person.types("look at @");
            person.sees("  src/").await;
            // Letters within a path that begins otherwise.
            person.types("loop/pick");
            person.sees("› tests/loop/picking.rs").await;
            // Escape closes the list, and it stays closed for this mention.
            person.presses(key(KeyCode::Escape));
            person.sees_no("› tests/loop/picking.rs").await;
            person.types("i");
            person.sees("› look at @loop/picki").await;
            person.sees_no("› tests/loop/picking.rs").await;
            person.presses(key(KeyCode::Tab));
            person.sees("› look at @tests/loop/picking.rs").await;
            person.presses(key(KeyCode::Enter));
            person.sees("[attached tests/loop/picking.rs").await;
            rests(&person).await;
            person.leaves();
        })
        .await;
    let request = &fixture.model.requests()[0];
    let told = request.body.to_string();
    assert!(told.contains("[The file tests/loop/picking.rs, attached by the user"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_paste_attaches_no_file() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            person.does(TerminalInput::Paste("see @Cargo.toml\n".repeat(12)));
            person.sees("[pasted 12 lines]").await;
            person.presses(key(KeyCode::Enter));
            person.sees("heard see").await;
            rests(&person).await;
            assert!(!person.all().iter().any(|row| row.contains("[attached")));
            person.leaves();
        })
        .await;
    assert!(!fixture.model.requests()[0].body.to_string().contains("[package]"));
}
