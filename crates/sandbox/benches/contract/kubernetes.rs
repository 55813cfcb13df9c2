//! The rows of the backend `kubernetes`, beside `kubectl exec`.

use vestal_config::Environment;
use vestal_sandbox::Command;
use vestal_sandbox::job::{Follow, JobEvent};
use vestal_sandbox::registered_backends;
use vestal_testkit::kubernetes::{CLUSTER, KubernetesNamespace};

use crate::Result;
use crate::commands::{TASK, stateless_pair};
use crate::fixture::{BenchBackend, BenchHome, ContractBench};
use crate::options::Plan;
use crate::streaming::{complete, text, through_a_pipe};
use vestal_bench::report::{Bar, BenchReport, BenchRow, Figure};
use vestal_bench::sample::Samples;

const WARM: &str = "true, beside kubectl exec";
const STREAM: &str = "100 MiB of output, beside kubectl exec";
const SIZE: u64 = 100 << 20;

/// Measures commands and much output in a pod.
pub(crate) fn measure(report: &mut BenchReport, plan: Plan) -> Result<()> {
    let given = Environment::capture();
    let lack = if given.get(CLUSTER).is_none_or(std::ffi::OsStr::is_empty) {
        Some(format!("{CLUSTER} is not set"))
    } else if registered_backends().all(|declared| declared.name != "kubernetes") {
        Some("it is not built in (--features kubernetes)".to_owned())
    } else {
        None
    };
    if let Some(lack) = lack {
        let row = |what: &str| BenchRow::not_run(format!("kubernetes: {what}"), lack.clone());
        report.add([WARM, STREAM].map(row).into());
        return Ok(());
    }
    let dir = tempfile::tempdir_in(KubernetesNamespace::shared_root())?;
    let namespace = KubernetesNamespace::create(dir.path(), dir.path().join("kubeconfig"));
    let backend = BenchBackend::Kubernetes {
        namespace: namespace.name().to_owned(),
        config: namespace.kubeconfig().to_owned(),
    };
    let home = BenchHome::open(&backend)?;
    report.add(home.measure(async |bench| rows(&bench, plan, &namespace).await)?);
    home.close()
}

async fn rows(
    bench: &ContractBench,
    plan: Plan,
    namespace: &KubernetesNamespace,
) -> Result<Vec<BenchRow>> {
    let sandbox = bench.sandbox(TASK).await?;
    let pods = namespace.pods();
    let pod = pods.first().and_then(|pod| pod["metadata"]["name"].as_str()).ok_or("no pod")?;
    let exec = || namespace.command(&["exec", pod, "--", "true"]);
    let warm = stateless_pair(bench, TASK, plan.containers.commands(), || {
        let status = exec().status()?;
        if status.success() { Ok(()) } else { Err(format!("kubectl exec: {status}").into()) }
    })
    .await?;
    let text = text(SIZE);
    let (mut ours, mut others) = (Samples::default(), Samples::default());
    for _ in 0..plan.streams {
        let began = std::time::Instant::now();
        let mut job =
            sandbox.start(Command::shell(text.as_str()).stateless(), Follow::EveryByte).await?;
        let mut received = 0;
        while let Some(event) = job.next().await? {
            if let JobEvent::Stdout(bytes) = event {
                received += bytes.len() as u64;
            }
        }
        complete(received, SIZE)?;
        ours.push(began.elapsed());
        let began = std::time::Instant::now();
        let mut other = namespace.command(&["exec", pod, "--", "/bin/sh", "-c", &text]);
        complete(through_a_pipe(&mut other)?, SIZE)?;
        others.push(began.elapsed());
    }
    let stream = BenchRow::single(bench.label(STREAM), Figure::rate(SIZE, ours.p50()))
        .beside(Figure::rate(SIZE, others.p50()));
    Ok(vec![warm.row(bench, WARM).bar(Bar::Faster(10.0)), stream.bar(Bar::TimesAtLeast(0.8))])
}
