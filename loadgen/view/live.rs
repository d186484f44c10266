//! The lines that stand on a terminal while a run goes on. Pure.

use super::{Paint, bytes_text, count_text};
use crate::engine::Progress;
use crate::measure::quantiles::duration_text;
use crate::results::Second;

/// How many seconds the line of bars looks back.
const BARS: usize = 40;
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is shown, and what it needs to remember.
#[derive(Clone, Debug)]
pub struct Live {
    name: String,
    seconds: f64,
    paint: Paint,
    rates: Vec<u64>,
    failed: u64,
}

impl Live {
    /// Of a run of this name and measured time.
    pub fn new(name: &str, seconds: f64, paint: Paint) -> Self {
        Self {
            name: name.to_owned(),
            seconds,
            paint,
            rates: Vec::new(),
            failed: 0,
        }
    }

    /// The lines for where the run stands now.
    pub fn lines(&mut self, progress: &Progress) -> Vec<String> {
        let (phase, second) = match progress {
            Progress::Filling(done, wanted) => {
                let done = format!(
                    "{} of {}",
                    bytes_text(*done as f64),
                    bytes_text(*wanted as f64)
                );
                return vec![format!(
                    "{}  producing a backlog: {done}",
                    self.paint.strong(&self.name)
                )];
            }
            Progress::WarmUp(second) => ("warming up", second),
            Progress::Measuring(second) => ("measuring", second),
            Progress::Draining(second) => ("waiting for what is on its way", second),
        };
        self.rates.push(second.acked);
        self.failed += second.failed;
        let at = second.at.round();
        let time = match progress {
            Progress::Measuring(_) => {
                format!("{at:.0} s of {:.0} s {}", self.seconds, self.bar(at))
            }
            _ => format!("{at:.0} s"),
        };
        let name = self.paint.strong(&self.name);
        let mut lines = vec![format!("{name}  {phase}  {time}")];
        lines.extend(self.figures(second));
        lines
    }

    fn figures(&self, second: &Second) -> Vec<String> {
        let label = |text: &str| self.paint.quiet(&format!("{text:<11}"));
        let latency = |name: &str, figures: &[u64; 4]| {
            if figures[3] == 0 {
                return format!("{}-", label(name));
            }
            let [p50, p99, _, max] = figures.map(duration_text);
            format!("{}p50 {p50:<9} p99 {p99:<9} max {max}", label(name))
        };
        let rate = count_text(second.acked as f64);
        let bytes = bytes_text(second.acked_bytes as f64);
        let failed = format!("{} failed", self.failed);
        let failed = if self.failed > 0 {
            self.paint.bad(&failed)
        } else {
            failed
        };
        vec![
            format!(
                "{}{rate} records/s  {bytes}/s  {}",
                label("throughput"),
                self.bars()
            ),
            latency("produce", &second.produce),
            latency("end-to-end", &second.end_to_end),
            format!(
                "{}{} records  {failed}",
                label("backlog"),
                count_text(second.backlog as f64)
            ),
        ]
    }

    fn bar(&self, at: f64) -> String {
        let full = (at / self.seconds.max(1.0) * 20.0).round() as usize;
        let full = full.min(20);
        format!("[{}{}]", "=".repeat(full), " ".repeat(20 - full))
    }

    fn bars(&self) -> String {
        let shown = &self.rates[self.rates.len().saturating_sub(BARS)..];
        let most = shown.iter().max().copied().unwrap_or(0).max(1);
        let bar = |rate: &u64| HEIGHTS[(rate * 7 / most) as usize];
        shown.iter().map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_shown_with_its_rate_latency_and_backlog() {
        let mut live = Live::new("steady", 30.0, Paint { is_on: false });
        let second = Second {
            at: 15.0,
            acked: 20_000,
            acked_bytes: 20_480_000,
            backlog: 12,
            failed: 3,
            produce: [1_000_000, 2_000_000, 3_000_000, 4_000_000],
            ..Second::default()
        };
        let lines = live.lines(&Progress::Measuring(second));
        assert_eq!(
            lines[0],
            "steady  measuring  15 s of 30 s [==========          ]"
        );
        assert_eq!(lines[1], "throughput 20.0k records/s  19.5 MiB/s  █");
        assert_eq!(
            lines[2],
            "produce    p50 1.00 ms   p99 2.00 ms   max 4.00 ms"
        );
        assert_eq!(lines[3], "end-to-end -");
        assert_eq!(lines[4], "backlog    12 records  3 failed");
    }
}
