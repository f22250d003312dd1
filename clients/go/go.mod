module github.com/tidegate/tidegate/clients/go

go 1.22
