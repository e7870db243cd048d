//! What a benchmark found: rows of named values, each measured once a round, and ratios between them.

use serde_json::{Map, Value, json};

/// One column: its heading with the unit, and how many decimals are worth printing.
pub type Column = (&'static str, usize);

struct Row {
    name: String,
    cells: Vec<(Column, Vec<f64>)>,
}

/// The outcome of one benchmark over all its rounds.
pub struct Report {
    name: &'static str,
    about: String,
    rows: Vec<Row>,
    ratios: Vec<(String, Vec<f64>)>,
    notes: Vec<String>,
}

impl Report {
    /// A report without values. `about` says in one sentence what is measured against what.
    pub fn new(name: &'static str, about: impl Into<String>) -> Report {
        Report { name, about: about.into(), rows: Vec::new(), ratios: Vec::new(), notes: Vec::new() }
    }

    /// One round's value of one row and column.
    pub fn add(&mut self, row: &str, column: Column, value: f64) {
        let at = self.rows.iter().position(|r| r.name == row).unwrap_or_else(|| {
            self.rows.push(Row { name: row.to_owned(), cells: Vec::new() });
            self.rows.len() - 1
        });
        let cells = &mut self.rows[at].cells;
        match cells.iter_mut().find(|(c, _)| c.0 == column.0) {
            Some((_, values)) => values.push(value),
            None => cells.push((column, vec![value])),
        }
    }

    /// One round's ratio. Ratios are taken within a round, where both sides met the same disturbances.
    pub fn ratio(&mut self, name: &str, value: f64) {
        match self.ratios.iter_mut().find(|(n, _)| n == name) {
            Some((_, values)) => values.push(value),
            None => self.ratios.push((name.to_owned(), vec![value])),
        }
    }

    /// Something that a reader of the figures has to know. Said once, however many rounds say it.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The report for a program.
    pub fn to_json(&self) -> Value {
        let cells = |row: &Row| -> Map<String, Value> {
            row.cells
                .iter()
                .map(|((heading, _), values)| ((*heading).to_owned(), Spread::of(values).to_json()))
                .collect()
        };
        let rows: Map<String, Value> = self.rows.iter().map(|r| (r.name.clone(), cells(r).into())).collect();
        let ratios: Map<String, Value> =
            self.ratios.iter().map(|(name, values)| (name.clone(), Spread::of(values).to_json())).collect();
        json!({ "benchmark": self.name, "about": self.about, "rows": rows, "ratios": ratios, "notes": self.notes })
    }

    /// The report for a person.
    pub fn print(&self) {
        println!("\n{}: {}\n", self.name, self.about);
        let mut columns: Vec<Column> = Vec::new();
        for (column, _) in self.rows.iter().flat_map(|r| &r.cells) {
            if !columns.iter().any(|c| c.0 == column.0) {
                columns.push(*column);
            }
        }
        let mut lines = vec![std::iter::once(String::new()).chain(columns.iter().map(|c| c.0.to_owned())).collect()];
        for row in &self.rows {
            let cell = |column: &Column| {
                let cell = row.cells.iter().find(|(c, _)| c.0 == column.0);
                cell.map_or_else(|| "–".to_owned(), |(c, values)| Spread::of(values).to_text(c.1))
            };
            let line: Vec<String> = std::iter::once(row.name.clone()).chain(columns.iter().map(cell)).collect();
            lines.push(line);
        }
        let width = |i: usize| lines.iter().map(|l| l[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..=columns.len()).map(width).collect();
        for line in &lines {
            let mut text = format!("  {:<1$}", line[0], widths[0]);
            for (cell, width) in line.iter().zip(&widths).skip(1) {
                text.push_str(&format!("  {cell:>width$}"));
            }
            println!("{}", text.trim_end());
        }
        println!();
        for (name, values) in &self.ratios {
            println!("  ratio  {name}: {}", Spread::of(values).to_text(3));
        }
        for note in &self.notes {
            println!("  note   {note}");
        }
    }
}

/// The values of all rounds, reduced to what is worth telling.
struct Spread {
    median: f64,
    min: f64,
    max: f64,
    rounds: usize,
}

impl Spread {
    fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Spread {
            median: quantile(&sorted, 0.5),
            min: sorted.first().copied().unwrap_or(f64::NAN),
            max: sorted.last().copied().unwrap_or(f64::NAN),
            rounds: sorted.len(),
        }
    }

    fn to_json(&self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max, "rounds": self.rounds })
    }

    fn to_text(&self, decimals: usize) -> String {
        let Spread { median, min, max, rounds } = self;
        if *rounds > 1 {
            format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
        } else {
            format!("{median:.decimals$}")
        }
    }
}

/// The value that the fraction `q` of the sorted values is at or below: the nearest rank. NaN for none.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn a_quantile_is_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.5), 50.0);
        assert_eq!(quantile(&hundred, 0.99), 99.0);
        assert_eq!(quantile(&hundred, 1.0), 100.0);
        assert_eq!(quantile(&[7.0], 0.01), 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
