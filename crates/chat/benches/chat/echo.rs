//! From a key to its echo, while much else continues.

use std::time::{Duration, Instant};

use vestal_bench::Result;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;
use vestal_tui::emulator::{Emulator, Pty};

use crate::Plan;
use crate::fixture::{ChatFixture, FLOOD, TALK, TEST_TIMEOUT};

/// Between two keys: somebody who types fast.
const PAUSE: Duration = Duration::from_millis(15);

/// Keys after which the input is cleared.
const LINE: usize = 40;

pub(crate) fn measure(fixture: &ChatFixture, plan: Plan) -> Result<Vec<BenchRow>> {
    let bar = Bar::AtMost(Figure::Milliseconds(5.0));
    let kernel = kernel(fixture, plan)?;
    let beside = Figure::time(kernel.p50());
    let mut chat = fixture.ready_chat()?;
    let idle = keys(&mut chat, plan.keys)?;
    let busy = while_saying(fixture, FLOOD, plan)?;
    let talking = while_saying(fixture, TALK, plan)?;
    ChatFixture::leave(chat)?;
    Ok(vec![
        BenchRow::times("key to echo, nothing going on", &idle)
            .beside(beside)
            .bar(bar)
            .note("beside it: the kernel's echo to cat"),
        BenchRow::times("key to echo while a tool prints 10 MB", &busy).beside(beside).bar(bar),
        BenchRow::times("key to echo while the model says 10 MB", &talking).beside(beside).bar(bar),
    ])
}

/// What a key takes where nothing but the kernel and the emulator is at work.
fn kernel(fixture: &ChatFixture, plan: Plan) -> Result<Samples> {
    let mut cat = fixture.on_terminal("cat".as_ref(), &[])?;
    let samples = keys(&mut cat, plan.keys)?;
    cat.key("\x15\x04")?;
    cat.wait(TEST_TIMEOUT)?;
    Ok(samples)
}

/// Types while the chat receives this and answers it.
fn while_saying(fixture: &ChatFixture, words: &str, plan: Plan) -> Result<Samples> {
    let mut chat = fixture.ready_chat()?;
    chat.type_text(words)?;
    chat.wait_for_text(words, TEST_TIMEOUT);
    chat.key("\r")?;
    // It is under way when something is seen of it.
    chat.wait_for(
        |seen| {
            let screen = seen.screen();
            screen.iter().any(|row| row.contains("xxxx") || row.contains("some weight"))
        },
        TEST_TIMEOUT,
    );
    let samples = keys(&mut chat, plan.keys)?;
    chat.key("\x15\x03")?;
    chat.wait_for(|seen| seen.screen().iter().any(|row| row.contains("interrupted")), TEST_TIMEOUT);
    ChatFixture::leave(chat)?;
    Ok(samples)
}

/// Presses keys one after the other, and waits for the echo of each.
fn keys(chat: &mut Pty, count: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    let mut typed = String::new();
    for number in 0..count {
        std::thread::sleep(PAUSE);
        if typed.len() == LINE {
            chat.key("\x15")?;
            chat.wait_for(|seen| !is_shown(seen, &typed), TEST_TIMEOUT);
            typed.clear();
        }
        let key = char::from(b'a' + u8::try_from(number % 26)?);
        typed.push(key);
        let start = Instant::now();
        chat.key(key.encode_utf8(&mut [0; 4]))?;
        chat.wait_for(|seen| is_shown(seen, &typed), TEST_TIMEOUT);
        samples.push(start.elapsed());
    }
    Ok(samples)
}

/// Reports whether the input shows what was typed.
fn is_shown(seen: &Emulator, typed: &str) -> bool {
    let (row, _) = seen.cursor();
    let screen = seen.screen();
    screen.get(row).is_some_and(|row| row.trim_start_matches("› ").trim_end() == typed)
}
