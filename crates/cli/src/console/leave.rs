//! Leaving while something is typed that nobody sees.

use std::sync::{Once, mpsc};
use std::thread;

use vestal_sandbox::Terminations;

use super::terminal;
use crate::exit::Exit;

static WATCHING: Once = Once::new();

/// Has a signal that asks the program to end put the terminal back first, from
/// now on. Once signals are listened for they no longer end the program by
/// themselves, so this goes on with it for good; where others listen, it is
/// theirs to obey.
pub(super) fn restore_on_signals() {
    WATCHING.call_once(|| {
        let (ready, is_ready) = mpsc::channel();
        let watching = thread::Builder::new().name("signals".to_owned());
        // Without a thread, signals end the program as they did before.
        if watching.spawn(move || watch(&ready)).is_ok() {
            // An end of the channel says that nobody listens, which is as good.
            is_ready.recv().ok();
        }
    });
}

fn watch(ready: &mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let Ok(mut signals) = Terminations::listen() else { return };
        if ready.send(()).is_err() {
            return;
        }
        loop {
            let signal = signals.next().await;
            if signals.is_alone() {
                terminal::restore();
                std::process::exit(Exit::Terminated(signal).code().into());
            }
        }
    });
}
