//! What a sandbox that is on its way is waiting for.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use vestal_sandbox::{Progress, ProgressSink};

use super::copying::Copying;
use super::{Console, progress, status, text};

/// Blanks and blocks of a bar.
const BAR: usize = 24;

/// The step that a sandbox is at. Cloning gives the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity {
    step: Arc<Mutex<Step>>,
    /// Whether what the copies are for has been said, where no line can show them.
    told: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
enum Step {
    /// Nothing has been told.
    #[default]
    Unknown,
    /// An image is being fetched.
    Pull(Pull),
    /// Files are being copied.
    Copy(Copying),
    /// Something else, in words.
    Other(String),
}

#[derive(Debug)]
struct Pull {
    image: String,
    begun: Instant,
    layers_done: usize,
    layers: usize,
    bytes: u64,
    total: u64,
}

impl Activity {
    /// Returns whom the engine tells of its steps.
    pub(crate) fn sink(&self, console: Console) -> ProgressSink {
        let activity = self.clone();
        ProgressSink::new(move |progress| activity.take(console, progress))
    }

    /// Awaits a sandbox and shows the step it is at if that takes long; pulls
    /// and copies are shown at once.
    pub(crate) async fn while_waiting<T>(&self, work: impl Future<Output = T>) -> T {
        let done = progress::while_waiting(|| self.step().line(), work).await;
        *self.step() = Step::Unknown;
        done
    }

    /// As [`Activity::while_waiting`] for something that has a name of its own,
    /// which is said at once where no line can show how far it is.
    pub(crate) async fn while_doing<T>(
        &self,
        console: Console,
        what: &str,
        work: impl Future<Output = T>,
    ) -> T {
        *self.step() = Step::Other(what.to_owned());
        self.told.store(true, Ordering::Relaxed);
        if !status::is_possible() {
            console.note(what);
        }
        let done = self.while_waiting(work).await;
        self.told.store(false, Ordering::Relaxed);
        done
    }

    /// Reports whether an image is being fetched.
    pub(crate) fn is_pull(&self) -> bool {
        matches!(*self.step(), Step::Pull(_))
    }

    fn step(&self) -> MutexGuard<'_, Step> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, console: Console, progress: Progress) {
        let mut step = self.step();
        match progress {
            Progress::Pulling { image, layers_done, layers, bytes, total } => {
                let begun = match &*step {
                    Step::Pull(pull) if pull.image == image => pull.begun,
                    _ => {
                        if !status::is_possible() {
                            console.note(&format!("pulling image {image}"));
                        }
                        Instant::now()
                    }
                };
                *step = Step::Pull(Pull { image, begun, layers_done, layers, bytes, total });
                if status::is_possible() {
                    status::show(&format!("  {}", step.line()));
                }
            }
            Progress::Pulled { image } => {
                if let Step::Pull(pull) = &*step {
                    console.note(&pull.end());
                } else {
                    console.note(&format!("pulled image {image}"));
                }
                *step = Step::Unknown;
            }
            Progress::Copying { what, files, bytes, total } => {
                if !matches!(&*step, Step::Copy(copying) if copying.is_of(&what)) {
                    if !status::is_possible() && !self.told.load(Ordering::Relaxed) {
                        console.note(&format!("copying {what}"));
                    }
                    *step = Step::Copy(Copying::new(what));
                }
                if let Step::Copy(copying) = &mut *step {
                    copying.advance(files, bytes, total);
                }
                if status::is_possible() {
                    status::show(&format!("  {}", step.line()));
                }
            }
            Progress::Starting { what } => *step = Step::Other(what),
        }
    }
}

impl Step {
    fn line(&self) -> String {
        match self {
            Self::Unknown => "starting the sandbox …".to_owned(),
            Self::Other(what) => format!("{} …", text::printable(what)),
            Self::Pull(pull) => pull.line(),
            Self::Copy(copying) => copying.line(),
        }
    }
}

impl Pull {
    fn line(&self) -> String {
        let Self { image, layers_done, layers, bytes, total, .. } = self;
        let image = text::printable(image);
        if *layers == 0 {
            return format!("pulling image {image} …");
        }
        let layers = format!("{layers_done} of {}", text::count(*layers as u64, "layer"));
        if *total == 0 {
            return format!("pulling {layers} of image {image}");
        }
        let full = u128::from(*bytes) * BAR as u128 / u128::from(*total);
        let full = usize::try_from(full).unwrap_or(BAR).min(BAR);
        // The name may be long, and what does not fit is cut.
        format!(
            "pulling {}{} {} of {}, {layers} of image {image}",
            "█".repeat(full),
            "░".repeat(BAR - full),
            text::bytes(*bytes),
            text::bytes(*total),
        )
    }

    fn end(&self) -> String {
        let mut said = vec![format!("pulled image {}", self.image)];
        if self.total > 0 {
            said.push(text::bytes(self.total));
        }
        let took = self.begun.elapsed();
        if took.as_secs() > 0 {
            said.push(format!("in {}", text::span(took)));
        }
        said.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(layers: usize, bytes: u64, total: u64) -> Pull {
        let image = "a/b:c\x1b[2J".to_owned();
        Pull { image, begun: Instant::now(), layers_done: 1, layers, bytes, total }
    }

    #[test]
    fn a_bar_is_as_full_as_what_is_known_has_come() {
        assert_eq!(pull(0, 0, 0).line(), "pulling image a/b:c\\x1b[2J …");
        assert_eq!(pull(2, 0, 0).line(), "pulling 1 of 2 layers of image a/b:c\\x1b[2J");
        assert_eq!(
            pull(2, 512, 1024).line(),
            format!(
                "pulling {}{} 512 B of 1.0 KiB, 1 of 2 layers of image a/b:c\\x1b[2J",
                "█".repeat(12),
                "░".repeat(12)
            )
        );
        assert!(pull(2, u64::MAX, 1).line().contains(&"█".repeat(24)));
        assert!(!pull(2, u64::MAX, 1).line().contains('░'));
    }
}
