"""Names that try to break out of a page or a statement."""

HTML = "<img src=x onerror=alert(1)>"
SQL = '"; DROP TABLE view; --'
SCRIPT = "it's </script><script>alert(2)</script>"
