-- An analyst's 22 questions to a view of a hospital's admissions, which `hdpview demo` builds.
--
--   hdpview serve hdpview-demo/admissions.pview &
--   psql -h 127.0.0.1 -p 5433 -U analyst hdpview -f examples/analyst.sql
--
-- Each answer is an estimate; SET hdpview.intervals = on; adds the interval of each number.

-- 1. How many admissions were there?
SELECT COUNT(*) AS admissions FROM admissions;

-- 2. How many in each ward, largest first?
SELECT ward, COUNT(*) AS n FROM admissions GROUP BY ward ORDER BY n DESC;

-- 3. Which three regions send the most patients?
SELECT region, COUNT(*) AS n FROM admissions GROUP BY region ORDER BY n DESC LIMIT 3;

-- 4. What share of admissions are emergencies?
SELECT COUNT(*) FILTER (WHERE admission = 'emergency') / COUNT(*) AS share FROM admissions;

-- 5. Is that share different for women and men?
SELECT sex, COUNT(*) FILTER (WHERE admission = 'emergency') / COUNT(*) AS share
FROM admissions WHERE sex IN ('Female', 'Male') GROUP BY sex ORDER BY sex;

-- 6. How old are patients on average?
SELECT AVG(age) AS mean_age FROM admissions;

-- 7. How long do they stay, by ward?
SELECT ward, AVG(stay_days) AS mean_stay FROM admissions GROUP BY ward ORDER BY mean_stay DESC;

-- 8. What is the median length of stay?
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY stay_days) AS median_stay FROM admissions;

-- 9. And by type of admission?
SELECT admission, percentile_cont(0.5) WITHIN GROUP (ORDER BY stay_days) AS median_stay
FROM admissions GROUP BY admission ORDER BY admission;

-- 10. What is the minimum cost of the most expensive 10% of admissions?
SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY cost) AS dear FROM admissions;

-- 11. Which wards have the highest total cost?
SELECT ward, SUM(cost) AS total FROM admissions GROUP BY ward ORDER BY total DESC LIMIT 5;

-- 12. How many admissions a year?
SELECT EXTRACT(year FROM admitted) AS year, COUNT(*) AS n FROM admissions GROUP BY 1 ORDER BY 1;

-- 13. How many admissions were there in each month of 2023?
SELECT date_trunc('month', admitted) AS month, COUNT(*) AS n
FROM admissions WHERE admitted >= DATE '2023-01-01' AND admitted < DATE '2024-01-01' GROUP BY 1 ORDER BY 1;

-- 14. By what factor did admissions grow from 2022 to 2023?
SELECT COUNT(*) FILTER (WHERE EXTRACT(year FROM admitted) = 2023)
     / COUNT(*) FILTER (WHERE EXTRACT(year FROM admitted) = 2022) AS growth FROM admissions;

-- 15. How many admissions are followed by another within 30 days?
SELECT COUNT(*) FILTER (WHERE readmitted) / COUNT(*) AS rate FROM admissions;

-- 16. Does the rate increase with age?
SELECT age / 10 * 10 AS decade, COUNT(*) FILTER (WHERE readmitted) / COUNT(*) AS rate
FROM admissions GROUP BY 1 ORDER BY 1;

-- 17. Are smokers readmitted more often? As an odds ratio.
SELECT (COUNT(*) FILTER (WHERE smoker AND readmitted) * COUNT(*) FILTER (WHERE NOT smoker AND NOT readmitted))
     / (COUNT(*) FILTER (WHERE smoker AND NOT readmitted) * COUNT(*) FILTER (WHERE NOT smoker AND readmitted))
     AS odds_ratio FROM admissions;

-- 18. Are people over 65 more often emergencies? As an odds ratio.
SELECT (COUNT(*) FILTER (WHERE age > 65 AND admission = 'emergency') * COUNT(*) FILTER (WHERE age <= 65 AND admission <> 'emergency'))
     / (COUNT(*) FILTER (WHERE age > 65 AND admission <> 'emergency') * COUNT(*) FILTER (WHERE age <= 65 AND admission = 'emergency'))
     AS odds_ratio FROM admissions;

-- 19. How much do readmission rates differ between men and women?
SELECT COUNT(*) FILTER (WHERE sex = 'Male' AND readmitted) / COUNT(*) FILTER (WHERE sex = 'Male')
     - COUNT(*) FILTER (WHERE sex = 'Female' AND readmitted) / COUNT(*) FILTER (WHERE sex = 'Female')
     AS difference FROM admissions;

-- 20. How often was no blood pressure measured?
SELECT 1 - COUNT(systolic_bp) / COUNT(*) AS missing FROM admissions;

-- 21. How many have high blood pressure, among smokers and others?
SELECT smoker, COUNT(*) FILTER (WHERE systolic_bp >= 140) / NULLIF(COUNT(systolic_bp), 0) AS high
FROM admissions WHERE smoker IS NOT NULL GROUP BY smoker ORDER BY smoker;

-- 22. Which five pairs of diagnosis and ward are the most common?
SELECT diagnosis, ward, COUNT(*) AS n FROM admissions GROUP BY diagnosis, ward ORDER BY n DESC LIMIT 5;
