//! Operations on a small file.

use std::path::Path;

use vestal_sandbox::files::WriteOptions;
use vestal_wire::FileEdit;

use crate::Result;
use crate::commands::TASK;
use crate::fixture::ContractBench;
use crate::options::Plan;
use crate::workload::SESSION;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::repeat;

/// A source file of ordinary size.
const SIZE: usize = 4 << 10;

const BAR: Bar = Bar::AtMost(Figure::Milliseconds(1.0));

/// What is measured, in the order of the rows.
pub(crate) const NAMES: [&str; 3] =
    ["read of a small file", "write of a small file", "patch of a small file"];

/// Measures with the file at `path`, as commands in the sandbox see it.
pub(crate) async fn measure(
    bench: &ContractBench,
    plan: Plan,
    path: &Path,
) -> Result<Vec<BenchRow>> {
    let sandbox = bench.sandbox(TASK).await?;
    let files = sandbox.files(Some(SESSION)).await?;
    let content = content();

    let write = repeat(plan.warm_up, plan.files, async |_| {
        files.write(path, &content, WriteOptions::default()).await?;
        Ok(())
    })
    .await?;
    let read = repeat(plan.warm_up, plan.files, async |_| {
        let read = files.read(path, 1 << 20).await?;
        if read == content { Ok(()) } else { Err("the file is not what was written".into()) }
    })
    .await?;
    let patch = repeat(plan.warm_up, plan.files, async |round| {
        let (old, new) = if round % 2 == 0 { ("even", "odd") } else { ("odd", "even") };
        let edit = FileEdit {
            old: old.as_bytes().to_vec().into(),
            new: new.as_bytes().to_vec().into(),
            all: false,
        };
        files.patch(path, vec![edit], None).await?;
        Ok(())
    })
    .await?;
    let rows = NAMES.iter().zip([read, write, patch]);
    Ok(rows.map(|(name, samples)| BenchRow::times(bench.label(name), &samples).bar(BAR)).collect())
}

fn content() -> Vec<u8> {
    let mut content = b"this line is even\n".to_vec();
    content.extend(b"and many more lines follow it\n".iter().cycle().take(SIZE - content.len()));
    content
}
